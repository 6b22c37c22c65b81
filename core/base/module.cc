#include "core/base/module.h"

#include <dlfcn.h>

#include <filesystem>

#include "core/base/error.h"

namespace ringside {
namespace {

/// The path of `file` in the program's folder, or in the parent folder if the file is only there:
/// test programs lie one folder below the modules.
std::filesystem::path module_path(const std::string& file) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto here = folder / file, above = folder.parent_path() / file;
  return !std::filesystem::exists(here) && std::filesystem::exists(above) ? above : here;
}

}  // namespace

void* module_symbol(const std::string& file, const char* name) {
  if (!has_module(file))
    throw Error("{} is missing in the program's folder: it was not built", file);
  if (void* module = dlopen(module_path(file).c_str(), RTLD_NOW | RTLD_LOCAL))
    if (void* symbol = dlsym(module, name)) return symbol;
  const char* cause = dlerror();
  throw Error("{}", cause ? cause : file + " cannot be loaded");
}

bool has_module(const std::string& file) { return std::filesystem::exists(module_path(file)); }

}  // namespace ringside
