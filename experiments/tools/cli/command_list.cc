// ringside list
#include <fmt/ranges.h>

#include <iostream>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/compress/compressor_info.h"
#include "core/device/cpu/cpu_device.h"
#include "core/interchange/stated_model.h"
#include "core/models/presets.h"
#include "core/optim/optimizers.h"
#include "experiments/runner/config/config.h"
#include "experiments/runner/config/toml.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/cli/command.h"
#include "peer/comm/algorithms/algorithms.h"

namespace ringside::tools::cli {
namespace {

template <class Table>
void list_table(const Table& rows, std::string_view title) {
  std::cout << title << "\n";
  for (const auto& row : rows) std::cout << fmt::format("  {:<8} {}\n", row.name, row.summary);
}

bool can_be_used(const runner::DeviceRow& row) {
  try {
    row.check();
    if (row.devices) row.devices();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// "layers = 4"
std::string text_of(const Field& field) {
  return fmt::format("{} = {}", field.name, runner::toml_text(field.value));
}

void list_schemes() {
  std::cout << "schemes (compare.schemes; options in [scheme.NAME])\n";
  for (const SchemeInfo& row : runner::scheme_rows()) {
    std::cout << fmt::format("  {:<16} {}\n", row.name, row.summary);
    for (const Field& option : row.defaults.fields())
      std::cout << fmt::format("             {:<22} {}\n", text_of(option), option.description);
  }
}

/// 124439808 -> 124,439,808
std::string with_commas(std::int64_t number) {
  std::string out = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(out.size()) - 3; at > 0; at -= 3)
    out.insert(static_cast<std::size_t>(at), 1, ',');
  return out;
}

void list_models() {
  list_table(models(), "models (model.kind)");
  std::cout << "models with a name (model.preset), and their numbers of parameters\n";
  // Units own no parameters. The models that are made and counted here allocate only their running
  // statistics.
  const auto device = make_cpu_device(1);
  for (const Preset& preset : presets()) {
    const Model model = make_model(preset.config, *device);
    const std::string encoder =
        preset.encoder == 0
            ? ""
            : fmt::format(" ({} without the heads for pre-training)", with_commas(preset.encoder));
    std::cout << fmt::format("  {:<16} {:>15}  {}{}\n", preset.name,
                             with_commas(model.parameter_count()), preset.source, encoder);
  }
  std::cout << fmt::format(
      "models that a config.json of Hugging Face describes (model.from = \"FOLDER\"): {}\n",
      fmt::join(hugging_face_types(), ", "));
}

void list_optimizers() { list_table(optimizers(), "optimizers (optimizer.kind)"); }

void list_data() { list_table(runner::dataset_rows(), "data sets (data.kind)"); }

void list_devices() {
  std::cout << "devices (device.kind)\n";
  for (const runner::DeviceRow& row : runner::device_rows())
    std::cout << fmt::format("  {:<8} {}{}\n", row.name, row.summary,
                             can_be_used(row) ? "" : " - not usable here, see `ringside doctor`");
}

void list_frameworks() {
  list_table(runner::framework_rows(),
             "frameworks whose host time simulated runs may take (sim.framework)");
}

void list_messages() {
  list_table(runner::message_rows(),
             "what messages of servers cost simulated processors (sim.messages)");
}

void list_algorithms() {
  std::cout
      << "algorithms of collectives (scheme.NAME.algorithm of ddp, fsdp, zero1, zero2 and zero3)\n";
  const auto line = [](Algorithm algorithm, std::string_view summary) {
    std::cout << fmt::format("  {:<19} {}\n", name_of(algorithm), summary);
  };
  line(Algorithm::native, "what the device has: shared memory in one pass, NCCL, or their models");
  for (const peer::AlgorithmRow& row : peer::algorithm_rows()) line(row.algorithm, row.summary);
  line(Algorithm::automatic,
       "the fastest of those by messages, for each collective; native where ranks share memory");
  line(Algorithm::library,
       "ddp, ranks of several hosts: the all-reduce of Gloo or MPI, in whatever order it adds up");
}

void list_compressors() {
  std::cout << "compressors of gradients (scheme.SCHEME.compressor of ddp, fsdp, zero1 to zero3, "
               "diloco)\n"
            << fmt::format("  {:<10} {}\n", no_compressor, "gradients are summed as they are");
  for (const CompressorInfo& row : compressors())
    std::cout << fmt::format("  {:<10} {}\n", row.name, row.summary);
}

void list_identities() {
  std::cout << "identities: runs of a scheme that the test suite holds against another scheme\n";
  for (const SchemeInfo& row : runner::scheme_rows())
    for (const Identity& one : row.identities) {
      std::string how = one.to_the_bit ? "to the bit" : "to rounding";
      if (one.at_world > 0) how += fmt::format(", at world {}", one.at_world);
      if (!one.other_settings.empty())
        how += fmt::format(", with {} there", fmt::join(one.other_settings, ", "));
      std::cout << fmt::format("  {:<10} {}: {}, {}\n", row.name, fmt::join(one.settings, ", "),
                               one.other, how);
    }
}

void list_keys() {
  std::cout << "keys of an experiment file, with their defaults\n";
  const auto keys = [](std::string_view table, const Fields& defaults) {
    for (const Field& field : defaults)
      std::cout << fmt::format("  {:<40} {}\n", fmt::format("{}.{}", table, text_of(field)),
                               field.description);
  };
  runner::ExperimentConfig config;
  for (const auto& [table, fields] : runner::tables_of(config)) keys(table, fields);
  std::cout << "cases: a table [[compare.case]] for each; --case 'SCHEME: KEY=VALUE, ...'\n";
  keys("compare.case", fields_to_read(runner::CaseConfig{}));
  std::cout << fmt::format("  {:<40} {}\n", "compare.case.set = {}",
                           "keys of the file with values that hold for the case alone, as in "
                           "{ \"scheme.ps.servers\" = 1 }");
  std::cout << "sweep: every scheme and case runs with every combination of the values\n"
            << fmt::format("  {:<40} {}\n", "compare.sweep.\"KEY\" = [...]",
                           "values that a key of the file takes in turn, as in \"train.precision\" "
                           "= [\"fp32\", \"bf16\"]; options of a scheme concern its lines alone");
}

struct Section {
  std::string_view name;
  void (*list)();
};
constexpr Section sections[] = {{"schemes", list_schemes},
                                {"models", list_models},
                                {"optimizers", list_optimizers},
                                {"data", list_data},
                                {"devices", list_devices},
                                {"frameworks", list_frameworks},
                                {"messages", list_messages},
                                {"algorithms", list_algorithms},
                                {"compressors", list_compressors},
                                {"identities", list_identities},
                                {"keys", list_keys}};

int list(const std::string& part) {
  std::vector<std::string> known;
  bool found = false;
  for (const Section& section : sections) {
    known.emplace_back(section.name);
    if (!part.empty() && part != section.name) continue;
    section.list();
    found = true;
  }
  std::cout << std::flush;
  if (found) return ok;
  return complain(wrong_input, fmt::format("list {}: did you mean '{}'? There are: {}", part,
                                           nearest(part, known), fmt::join(known, ", ")));
}

}  // namespace

Execute list_command(CommandOptions& options) {
  options.summary("what this build has: schemes, models, data sets, devices, and all keys");
  const auto part = std::make_shared<std::string>();
  options.add("PART", *part,
              "list only one of: schemes, models, optimizers, data, devices, frameworks, messages, "
              "algorithms, "
              "compressors, identities, keys");
  return [part](const Process&) { return list(*part); };
}

}  // namespace ringside::tools::cli
