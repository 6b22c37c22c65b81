// Modules: libraries of ours that are loaded when they are wanted.
#pragma once

#include <string>

namespace ringside {

/// The symbol `name` of the module `file`, a library beside the program or one folder up from it.
/// Loaded once and kept to the end of the process. Throws Error with the loader's cause, without
/// what to do about it.
void* module_symbol(const std::string& file, const char* name);

/// Whether the file is there (it may still lack a library that it needs).
bool has_module(const std::string& file);

}  // namespace ringside
