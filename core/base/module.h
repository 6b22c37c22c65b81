// Modules: shared libraries of this project that are loaded only when they are needed.
#pragma once

#include <filesystem>
#include <string>

namespace ringside {

/// The path of the module `file`: the first that exists in the program's folder, in its parent
/// folder, since test programs lie one folder below the modules, and in ../lib/ringside, where
/// modules of an installed program are.
std::filesystem::path path_of_module(const std::string& file);

/// Returns the address of the symbol `name` in the module `file`, a library. A module is loaded
/// once and stays loaded until the process ends. Throws Error with the loader's cause; the caller
/// adds what to do about it.
void* module_symbol(const std::string& file, const char* name);

/// Whether the module's file exists. Loading it may still fail, for instance if a library that the
/// module needs is missing.
bool has_module(const std::string& file);

}  // namespace ringside
