#include "core/plugin/load_plugin.h"

#include <dlfcn.h>

#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/plugin/stamp.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  Hash hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.digest();
}

template <class Function>
Function* function_of(void* library, const char* name, const std::string& file) {
  void* found = dlsym(library, name);
  if (!found)
    throw Error("--plugin {}: this is no plug-in: it does not say RINGSIDE_PLUGIN(ROWS...)", file);
  return reinterpret_cast<Function*>(found);
}

}  // namespace

const char* program_stamp() { return RINGSIDE_STAMP; }

LoadedPlugin load_plugin(const fs::path& given) {
  const fs::path file = fs::absolute(given).lexically_normal();
  const std::string name = file.string();
  if (!fs::is_regular_file(file))
    throw Error("--plugin {}: no such file; build it with $(ringside plugin --cflags)", name);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* cause = dlerror();
    throw Error("--plugin {}: {}", name, cause ? cause : "it cannot be loaded");
  }
  const std::string_view stamp =
      function_of<const char*()>(library, "ringside_plugin_stamp", name)();
  if (stamp != program_stamp())
    throw Error(
        "--plugin {} was built for another program ({}) than this one ({}); build it again with "
        "$(ringside plugin --cflags)",
        name, stamp, program_stamp());
  LoadedPlugin out{{name, hash_of(file)}, {}};
  function_of<void(PluginRows*)>(library, "ringside_plugin_rows", name)(&out.rows);
  return out;
}

}  // namespace ringside
