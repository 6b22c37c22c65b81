// PluginFile: a plug-in of a run, as records name it.
#pragma once

#include <string>

#include "core/base/fields.h"

namespace ringside {

/// The file of a plug-in (core/plugin), by its absolute path, and the hash of its content.
struct PluginFile {
  std::string file, hash;
  bool operator==(const PluginFile&) const = default;
};

inline Fields fields_of(PluginFile& plugin) {
  return {{"file", &plugin.file}, {"hash", &plugin.hash}};
}

}  // namespace ringside
