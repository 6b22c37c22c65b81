// The labels of a comparison's cases in tables, and the names of their files.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"
#include "experiments/runner/config/config.h"

namespace ringside::runner {

/// The settings as a plan keeps them: strings without quotes, all other values as TOML.
std::vector<Setting> settings_of(const std::vector<Assignment>& assignments);

/// "ddp (bucket_mb=25, threads=2)", or `name` alone without settings. A key is shown by its last
/// part, unless two of the settings share it; a file is shown by its name without folder and
/// ending, and code of a scheme in a file as "file.py:NAME".
std::string label_with(const std::string& name, const std::vector<Setting>& settings);

/// Makes names of files out of labels: "ddp (bucket_mb=25)" becomes "ddp-bucket_mb-25". Different
/// labels get different names.
class FileNames {
 public:
  /// The same name for the same label.
  std::string of_label(const std::string& label);

 private:
  std::map<std::string, std::string> known_;
  std::set<std::string> taken_;
};

}  // namespace ringside::runner
