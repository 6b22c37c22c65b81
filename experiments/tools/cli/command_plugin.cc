// ringside plugin
#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/plugin/load_plugin.h"
#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {
namespace {

namespace fs = std::filesystem;

struct PluginArguments {
  bool flags = false, stamp = false;
};

/// The folder below which the headers lie, beside the program of a build or of an installation.
fs::path headers_of(const Process& process) {
  const fs::path folder = fs::canonical(process.program).parent_path();
  for (const fs::path& place : {folder / "include", folder.parent_path() / "include/ringside"})
    if (fs::exists(place / "ringside/headers.h")) return place;
  throw Error(
      "the headers of Ringside are neither in {} nor in {}; install them (package ringside-dev), "
      "or build the program",
      (folder / "include").string(), (folder.parent_path() / "include/ringside").string());
}

int tell(const PluginArguments& arguments, const Process& process) {
  if (arguments.stamp) {
    std::cout << program_stamp() << std::endl;
    return ok;
  }
  if (!arguments.flags)
    return complain(wrong_input,
                    "plugin: ask for --cflags, with which plug-ins are compiled, or --stamp");
  // Without contraction of products, because the bits of an elementwise operation must not depend
  // on where in a vector loop an element stands.
  std::cout << fmt::format("-std=c++20 -O2 -fPIC -shared -ffp-contract=off -I{}\n",
                           headers_of(process).string())
            << std::flush;
  return ok;
}

}  // namespace

Execute plugin_command(CommandOptions& options) {
  options.summary("what a plug-in with schemes of your own is built with");
  const auto arguments = std::make_shared<PluginArguments>();
  options.flag("--cflags", arguments->flags,
               "print the options of the compiler: g++ $(ringside plugin --cflags) mine.cc -o "
               "mine.so");
  options.flag("--stamp", arguments->stamp,
               "print what a plug-in must have in common with this program: a hash of the headers, "
               "and the compiler");
  options.footer("`ringside new scheme NAME` writes a plug-in to begin with.");
  return [arguments](const Process& process) { return tell(*arguments, process); };
}

}  // namespace ringside::tools::cli
