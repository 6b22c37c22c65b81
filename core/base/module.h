// Modules: shared libraries of this project that are loaded only when they are needed. A module
// holds what needs one library of others (SimGrid, CUDA, NCCL, Gloo, MPI), so that the same program
// runs with and without it.
#pragma once

#include <filesystem>
#include <string>

namespace ringside {

/// A module and what errors say of it. It stands, with a struct of the module's functions, in a
/// header that program and module share (`*_module.h`).
struct Module {
  std::string file;     // in the program's folder: "libringside_gloo.so"
  std::string subject;  // what errors begin with: "Gloo"; empty: nothing
  std::string remedy;   // what to install, and what to do then
};

/// The version of what program and modules share: the number goes up with every change of a
/// module's functions, and the compiler's version stands for the library of C++.
inline constexpr const char* module_stamp = "1, compiler " __VERSION__;

/// The exports of a module.
struct ModuleExports {
  const void* functions = nullptr;  // a struct of pointers to functions
  const char* stamp = "";           // module_stamp as the module was built
};

/// Loads the module and returns its functions. `Functions` is the struct that the module's header
/// declares. A module is loaded once and stays loaded until the process ends. Throws Error that
/// says why the module cannot be loaded or that it is of another version, and the remedy.
template <class Functions>
const Functions& load_module(const Module& module);

/// The reason why the module cannot be loaded, as load_module() says it; empty if it can.
std::string why_no_module(const Module& module);

/// The path of the module `file`: the first that exists in the program's folder, in its parent
/// folder, since test programs lie one folder below the modules, and in ../lib/ringside, where
/// modules of an installed program are.
std::filesystem::path path_of_module(const std::string& file);

/// Whether the module's file exists. Loading it may still fail, for instance if a library that the
/// module needs is missing.
bool has_module(const std::string& file);

// ---- Implementation

const void* functions_of(const Module& module);

template <class Functions>
const Functions& load_module(const Module& module) {
  return *static_cast<const Functions*>(functions_of(module));
}

}  // namespace ringside

/// The only entry of a module, which defines it and fills in `exports`.
extern "C" void ringside_module(ringside::ModuleExports* exports);
