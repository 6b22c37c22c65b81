#include "core/base/module.h"

#include <dlfcn.h>

#include "core/base/error.h"

namespace ringside {

std::filesystem::path path_of_module(const std::string& file) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& place : {folder, folder.parent_path(), folder.parent_path() / "lib/ringside"})
    if (std::filesystem::exists(place / file)) return place / file;
  return folder / file;
}

void* module_symbol(const std::string& file, const char* name) {
  if (!has_module(file))
    throw Error("{} is missing in the program's folder: it was not built", file);
  if (void* module = dlopen(path_of_module(file).c_str(), RTLD_NOW | RTLD_LOCAL))
    if (void* symbol = dlsym(module, name)) return symbol;
  const char* cause = dlerror();
  throw Error("{}", cause ? cause : file + " cannot be loaded");
}

bool has_module(const std::string& file) { return std::filesystem::exists(path_of_module(file)); }

}  // namespace ringside
