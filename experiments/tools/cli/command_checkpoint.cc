// ringside checkpoint show, verify, convert
#include <fmt/ranges.h>

#include <iostream>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/checkpoint/checkpoint.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/write_values.h"
#include "core/interchange/weights.h"
#include "core/models/model_defaults.h"
#include "core/models/models.h"
#include "core/scheme/state.h"
#include "core/train/saved_state.h"
#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct CheckpointArguments {
  std::string path, weights;
};

/// The checkpoint itself, or all of a folder of checkpoints, the newest last. Throws Error if there
/// is none.
std::vector<fs::path> checkpoints_at(const fs::path& path) {
  if (fs::exists(path / "manifest.json")) return {path};
  std::vector<fs::path> out;
  for (const auto& [step, one] : checkpoints_in(path)) out.push_back(one);
  if (out.empty())
    throw Error("{}: {}; name a checkpoint, or a folder of them", path.string(),
                fs::exists(path) ? "it has no whole checkpoint" : "there is no such folder");
  return out;
}

/// A member of the run at "train/precision" and the like, or "unknown".
std::string said(const ordered_json& run, std::initializer_list<const char*> path) {
  const ordered_json* at = &run;
  for (const char* name : path) {
    if (!at->is_object() || !at->contains(name)) return "unknown";
    at = &at->at(name);
  }
  return at->is_string() ? at->get<std::string>() : at->dump();
}

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.3f} MB", static_cast<double>(bytes) / 1e6);
}

/// A line for each name, and for state of replicas their numbers.
std::string state_text(const std::map<StateKey, std::int64_t>& state) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<std::int64_t>> replicas;
  for (const auto& [key, count] : state) replicas[{key.name, count}].push_back(key.replica);
  std::string out;
  for (const auto& [what, which] : replicas) {
    std::string own;
    if (which.size() > 1)
      own = fmt::format(", of each of {} replicas: {} to {}", which.size(), which.front(),
                        which.back());
    else if (which[0] >= 0)
      own = fmt::format(", of replica {}", which[0]);
    out += fmt::format("  {:<24} {:>12} values{}\n", what.first, what.second, own);
  }
  return out;
}

int show(const CheckpointArguments& arguments) {
  try {
    const Checkpoint checkpoint(checkpoints_at(arguments.path).back());
    const Manifest& manifest = checkpoint.manifest();
    std::cout << fmt::format(
        "{}: {} done, written by ringside {}\n"
        "run: scheme {}, world {}, model {} with {} parameters, {}\nfiles\n",
        checkpoint.path().string(), counted(manifest.step, "step"), manifest.program,
        said(manifest.run, {"scheme"}), said(manifest.run, {"world"}),
        said(manifest.run, {"model", "kind"}), manifest.parameters,
        said(manifest.run, {"train", "precision"}));
    for (const CheckpointFile& file : manifest.files)
      std::cout << fmt::format("  {:<24} {:>12}\n", file.name, megabytes(file.bytes));
    std::cout << "state\n"
              << state_text(checkpoint.state())
              << "random numbers: functions of the seed and of counters, no state\n";
    return ok;
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
}

int verify(const CheckpointArguments& arguments) {
  std::vector<fs::path> all;
  try {
    all = checkpoints_at(arguments.path);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  int status = ok;
  for (const fs::path& path : all) try {
      const Checkpoint checkpoint(path);
      checkpoint.verify();
      std::int64_t bytes = 0;
      for (const CheckpointFile& file : checkpoint.manifest().files) bytes += file.bytes;
      std::cout << fmt::format(
          "{}: all digests of {} with {} agree\n", path.string(),
          counted(static_cast<std::int64_t>(checkpoint.manifest().files.size()), "file"),
          megabytes(bytes));
    } catch (const Error& error) {
      status = complain(run_failed, error.what());
    }
  return status;
}

ModelConfig model_of(const Checkpoint& checkpoint) {
  const ordered_json& run = checkpoint.manifest().run;
  if (!run.is_object() || !run.contains("model"))
    throw Error("{}: its manifest does not say which model it is of", checkpoint.path().string());
  try {
    return completed(read_json<ModelConfig>(run.at("model"), Absent::keeps_default));
  } catch (const nlohmann::json::exception& error) {
    throw Error("{}: the model of its manifest cannot be read: {}", checkpoint.path().string(),
                error.what());
  }
}

/// Fills the running statistics of batch norms with their means over the micro-batches of a step,
/// each of which counts once, as the trainer does. Returns whether the checkpoint has them.
bool read_statistics(const Checkpoint& checkpoint, Model& model) {
  std::vector<StateKey> micro_batches;
  for (const auto& [key, count] : checkpoint.state())
    if (key.name == statistics_state) micro_batches.push_back(key);
  std::int64_t at = 0;
  for (const auto& unit : model.units)
    for (const Unit::Statistic& statistic : unit->statistics()) {
      if (micro_batches.empty()) return false;
      std::vector<float> values(static_cast<std::size_t>(statistic.values.count()));
      std::vector<double> sums(values.size());
      for (const StateKey& key : micro_batches) {
        checkpoint.read(key, at, values);
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
      }
      for (std::size_t i = 0; i < sums.size(); ++i)
        values[i] = static_cast<float>(sums[i] / static_cast<double>(micro_batches.size()));
      at += statistic.values.count();
      write_values(unit->device(), statistic.values, values);
    }
  return true;
}

/// Writes the weights of the run, or of replica 0 where replicas differ, in fp32.
void write_weights(const Checkpoint& checkpoint, const std::string& file) {
  const ModelConfig config = model_of(checkpoint);
  const auto device = make_cpu_device(1);
  Model model = make_model(config, *device);
  const auto state = checkpoint.state();
  StateKey key{std::string(state_parameters), -1};
  if (!state.contains(key)) key.replica = 0;
  const auto found = state.find(key);
  const std::int64_t saved = found == state.end() ? 0 : found->second;
  if (saved != model.parameter_count())
    throw Error("{}: it has {} parameters, but the model of its manifest has {}",
                checkpoint.path().string(), saved, model.parameter_count());
  WeightsFile weights(file, model, config, DType::f32);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t count = model.units[u]->layout().count();
    std::vector<float> values(static_cast<std::size_t>(count));
    checkpoint.read(key, model.first_parameter(u), values);
    const Tensor tensor = device->tensor({count}, MemoryKind::parameter);
    write_values(*device, tensor, values);
    weights.add(*model.units[u], tensor);
  }
  const bool complete = read_statistics(checkpoint, model);
  weights.finish(checkpoint.manifest().step);
  std::cout << fmt::format("{}: {}{} after {}, in fp32{}\n", file, counted(saved, "parameter"),
                           key.replica == 0 ? " of replica 0" : "",
                           counted(checkpoint.manifest().step, "step"),
                           complete ? ""
                                    : "; the checkpoint lacks the running statistics of batch "
                                      "norms, and the file has those of an untrained model");
}

int convert(const CheckpointArguments& arguments) {
  try {
    write_weights(Checkpoint(checkpoints_at(arguments.path).back()), arguments.weights);
    return ok;
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
}

Execute declare(CommandOptions& options, const std::string& summary, const std::string& path,
                int (*execute)(const CheckpointArguments&)) {
  options.summary(summary);
  const auto arguments = std::make_shared<CheckpointArguments>();
  options.add("PATH", arguments->path, path).required();
  if (execute == convert)
    options
        .add("--weights", arguments->weights,
             "the file to write, which Hugging Face or torchvision can load if they have this kind "
             "of model (docs/models.md)")
        .type("FILE.safetensors")
        .required();
  return [arguments, execute](const Process&) { return execute(*arguments); };
}

}  // namespace

Execute checkpoint_show_command(CommandOptions& options) {
  return declare(options, "print what a checkpoint has",
                 "a checkpoint, or a folder of them: the newest", show);
}

Execute checkpoint_verify_command(CommandOptions& options) {
  return declare(options, "compare a checkpoint's files with the digests of its manifest",
                 "a checkpoint, or a folder of them: all", verify);
}

Execute checkpoint_convert_command(CommandOptions& options) {
  return declare(options, "write a checkpoint's parameters as a file of weights",
                 "a checkpoint, or a folder of them: the newest", convert);
}

}  // namespace ringside::tools::cli
