#include "core/base/module.h"

#include <dlfcn.h>

#include <string_view>

#include "core/base/error.h"

namespace ringside {
namespace {

ModuleExports exports_of(const std::string& file) {
  if (!has_module(file))
    throw Error("{} is missing in the program's folder: it was not built", file);
  if (void* module = dlopen(path_of_module(file).c_str(), RTLD_NOW | RTLD_LOCAL))
    if (void* entry = dlsym(module, "ringside_module")) {
      ModuleExports exports;
      reinterpret_cast<decltype(ringside_module)*>(entry)(&exports);
      return exports;
    }
  const char* cause = dlerror();
  throw Error("{}", cause ? cause : file + " cannot be loaded");
}

}  // namespace

const void* functions_of(const Module& module) {
  try {
    const ModuleExports exports = exports_of(module.file);
    if (std::string_view(exports.stamp) != module_stamp)
      throw Error("{} is of another version ('{}') than the program ('{}'): build both again",
                  module.file, exports.stamp, module_stamp);
    return exports.functions;
  } catch (const Error& error) {
    throw Error("{}{}{}; {}", module.subject, module.subject.empty() ? "" : ": ", error.what(),
                module.remedy);
  }
}

std::string why_no_module(const Module& module) {
  try {
    functions_of(module);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::filesystem::path path_of_module(const std::string& file) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& place : {folder, folder.parent_path(), folder.parent_path() / "lib/ringside"})
    if (std::filesystem::exists(place / file)) return place / file;
  return folder / file;
}

bool has_module(const std::string& file) { return std::filesystem::exists(path_of_module(file)); }

}  // namespace ringside
