// The way of a plug-in's rows into the program.
#pragma once

#include <filesystem>

#include "core/plan/plugin_file.h"
#include "core/plugin/plugin_rows.h"

namespace ringside {

/// The stamp of this program (core/plugin/stamp.h).
const char* program_stamp();

/// A plug-in of this process, and what it adds.
struct LoadedPlugin {
  PluginFile file;
  PluginRows rows;
};

/// Loads a shared library that says RINGSIDE_PLUGIN(...). It stays loaded until the process ends.
/// Runs code of the file. Throws Error that names the file: it is not there, the system cannot load
/// it, it is no plug-in, or it was built with other headers or another compiler than the program
/// (with both stamps).
LoadedPlugin load_plugin(const std::filesystem::path& file);

}  // namespace ringside
