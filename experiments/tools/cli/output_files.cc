#include "experiments/tools/cli/output_files.h"

#include <unistd.h>

#include "core/base/error.h"
#include "core/interchange/safetensors.h"
#include "experiments/runner/config/cluster_file.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::tools::cli {
namespace {

namespace fs = std::filesystem;

struct InputFile {
  std::string what;
  fs::path path;
};

std::vector<InputFile> inputs_of(const fs::path& experiment, const RunPlan& plan) {
  std::vector<InputFile> out = {{"the experiment file", experiment}};
  const auto add = [&](const std::string& key, const auto& files) {
    for (const auto& file : files) out.push_back({"a file of " + key, file});
  };
  add("data.path", all_of(runner::find_dataset(plan.data.kind).files(plan.data)));
  if (!plan.train.initial_weights.empty())
    add("train.initial_weights", safetensors_files(plan.train.initial_weights));
  if (!plan.device.cluster.empty())
    add("device.cluster", runner::cluster_files(plan.device.cluster));
  return out;
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  return fs::weakly_canonical(a, error) == fs::weakly_canonical(b, error);
}

}  // namespace

OutputFile check_output(const std::string& option, const std::string& path) {
  if (path.empty()) return {option, {}};
  if (fs::is_symlink(path))
    throw Error("{} {}: this is a link, and nothing is written through links; name the file itself",
                option, path);
  if (fs::exists(path) && !fs::is_regular_file(path))
    throw Error("{} {}: this exists, but is not a file; name a file", option, path);
  auto file = fs::weakly_canonical(fs::absolute(path));
  if (!file.has_filename() || access(file.parent_path().c_str(), W_OK | X_OK) != 0)
    throw Error("{} {}: cannot be written; name a file in a folder that exists", option, path);
  return {option, file};
}

void check_outputs_apart(const std::vector<OutputFile>& outputs, const fs::path& experiment,
                         const RunPlan& plan) {
  const std::vector<InputFile> inputs = inputs_of(experiment, plan);
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->path.empty()) continue;
    const auto refuse = [&](const std::string& what) {
      throw Error("{} {} would replace {}; name another file", output->option,
                  output->path.string(), what);
    };
    for (const InputFile& input : inputs)
      if (same_file(output->path, input.path)) refuse(input.what);
    for (auto other = outputs.begin(); other != output; ++other)
      if (!other->path.empty() && same_file(output->path, other->path))
        refuse("the file of " + other->option);
  }
}

}  // namespace ringside::tools::cli
