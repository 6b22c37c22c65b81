// The plug-ins of this process.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plan/run_plan.h"

namespace ringside::runner {

/// Loads plug-ins (core/plugin/load_plugin.h) and adds their rows to the lists of this program.
/// Must be called before anything looks at a list, so at the start of a command. A file that is
/// loaded already is left out. Throws Error as load_plugin() and RowList::add() do, and for names
/// that keys cannot have.
void load_plugins(const std::vector<std::string>& files);

/// The plug-ins of this process, in the order in which they were loaded.
const std::vector<PluginFile>& loaded_plugins();

/// Results have a scheme of a plug-in that is not loaded.
class MissingPlugin : public Error {
 public:
  using Error::Error;
};

/// The default options of the scheme of a run that is kept, as JSON. The files of results do not
/// decide what code is loaded: throws MissingPlugin that names the plug-ins of the run.
DefaultOptions options_in(const nlohmann::json& kept);

/// Reads a plan for which this process does some work, and before that loads the plug-ins that the
/// plan names. Throws Error also for a plug-in whose content has changed since the plan was made.
RunPlan read_plan(const nlohmann::json& plan);

}  // namespace ringside::runner
