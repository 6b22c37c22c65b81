#include "experiments/tools/check/scheme_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/models/llama.h"
#include "core/plan/same_run.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/plan/references.h"
#include "experiments/tools/check/resumption.h"

namespace ringside::tools::check {
namespace {

using runner::ExperimentConfig;

/// The most that a closed form of the bytes of a step may be below what a rank sends, for headers
/// and padding.
constexpr double allowed_share = 0.1, allowed_bytes = 4096;

Violations gpt(const CheckedScheme& one, const std::string& text) {
  const RunRecord row = one.run_of(tiny("gpt", text));
  Violations out = differences(row, one.definition(tiny("gpt", text), row));
  add(out, lost_parameters(row));
  if (row.parameter_hashes.size() != one.replicas())
    out.push_back(
        fmt::format("the run has {} replicas, but the scheme says that it has {} "
                    "(SchemeInfo::own_replicas)",
                    row.parameter_hashes.size(), one.replicas()));
  return out;
}

Violations sgd(const CheckedScheme& one, const std::string& text) {
  auto config = tiny("mlp", text);
  config.optimizer.kind = "sgd";
  return one.against_definition(config);
}

Violations in_precision(Precision precision, const CheckedScheme& one, const std::string& text) {
  auto config = tiny("mlp", text);
  config.train.precision = precision;
  return one.against_definition(config);
}
Violations bf16(const CheckedScheme& one, const std::string& text) {
  return in_precision(Precision::bf16, one, text);
}
Violations fp16(const CheckedScheme& one, const std::string& text) {
  return in_precision(Precision::fp16, one, text);
}
/// Replicas and errors of their own would be in the units of loss scales of their own.
bool is_exact(const CheckedScheme& one) { return one.exact(); }

Violations accumulation(const CheckedScheme& one, const std::string& text) {
  auto config = tiny("mlp", text);
  config.train.accumulation = 2;
  const RunRecord row = one.run_of(config);
  Violations out = differences(row, one.definition(config, row));
  if (one.world == 1 || !one.exact() || !one.scheme.info->reduces_each_micro_batch) return out;
  // Other sums, other bits; but the same run.
  add(out, wrong_losses(row, reference_of(config, one.world), 1e-5));
  return out;
}

ExperimentConfig with_lamb(const std::string& text) {
  auto config = tiny("mlp", text);
  config.optimizer.kind = "lamb";
  config.optimizer.clip_norm = 0.5;
  config.train.accumulation = 2;
  return config;
}
Violations lamb(const CheckedScheme& one, const std::string& text) {
  return one.against_definition(with_lamb(text));
}
/// Where workers do not wait for each other, ranges of the model may be updated by themselves.
bool has_whole_updates(const CheckedScheme& one) {
  if (!one.replayed()) return true;
  try {
    one.plan_of(with_lamb(""));
    return true;
  } catch (const Error&) {
    return false;
  }
}

Violations evaluation(const CheckedScheme& one, const std::string& text) {
  auto config = tiny("gpt", text);
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  const RunRecord row = one.run_of(config);
  Violations out = differences(row, one.definition(config, row));
  // Where workers do not wait for each other, one may do more steps than the run has.
  if (row.evaluations.size() != 3 && !one.replayed())
    out.push_back(fmt::format("the run has {} evaluations in place of 3, after steps 2, 4 and 5",
                              row.evaluations.size()));
  return out;
}

Violations dropout(const CheckedScheme& one, const std::string& text) {
  auto config = tiny("gpt", text);
  config.model.dropout = 0.2;
  return one.against_definition(config);
}

Violations batch_norms(const CheckedScheme& one, const std::string& text) {
  auto config = tiny_resnet(text);
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  config.optimizer.kind = "sgd";
  return one.against_definition(config);
}

Violations tied_tables(const CheckedScheme& one, const std::string& text) {
  auto config = tiny("llama", text);
  config.model.heads = 4;
  config.model.own<LlamaOptions>().kv_heads = 2;
  config.model.tied = true;
  return one.against_definition(config);
}

Violations lengths(const CheckedScheme& one, const std::string& text) {
  auto config = tiny("gpt", text);
  config.model.context = 16;
  config.data = {};
  config.data.kind = "synthetic-lengths";
  config.data.length_median = 6;
  config.data.length_sigma = 0.8;
  config.train.steps = 3;
  config.train.accumulation = 2;
  return one.against_definition(config);
}

Violations recomputation(const CheckedScheme& one, const std::string& text) {
  auto config = tiny("gpt", text);
  config.model.layers = 6;
  const RunRecord kept = one.run_of(config);
  config.train.recompute = Recompute::full;
  return differences(one.run_of(config), kept);
}

/// A checkpoint has all that the scheme keeps from one step to the next. From the one after step 4
/// messages are on their way that began before.
Violations resumption(const CheckedScheme& one, const std::string& text) {
  auto config = tiny("mlp", text);
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  return after_going_on(one.plan_of(config), {1, 3, 4}, one.scheme.info);
}
bool resumes(const CheckedScheme& one) {
  return one.scheme.info->resumes && one.scheme.info->resumes(one.scheme.options());
}

/// Wide enough that headers of messages are small beside parameters, and so long that a scheme
/// which begins with something else has ended with that. Replicas may be exchanged once more, after
/// the last step.
Violations bytes(const CheckedScheme& one, const std::string& text) {
  auto config = tiny("mlp", text);
  config.model.width = 160;
  config.model.layers = 3;
  config.train.warmup = 5;
  config.train.steps = 25;
  const RunRecord row = one.run_of(config);
  Violations out = missing_traffic(row);
  const double least = row.bytes_minimum_per_step;
  const double measured = static_cast<double>(config.train.steps - config.train.warmup);
  const double last = one.scheme.info->own_replicas ? 8.0 * row.parameters / measured : 0;
  if (busiest(row) > (1 + allowed_share) * least + allowed_bytes + last)
    out.push_back(fmt::format(
        "the busiest rank sends {:.0f} bytes in a step, more than {:.0f} % above the {:.0f} that "
        "the scheme says are the least possible (SchemeInfo::minimum_bytes)",
        busiest(row), 100 * allowed_share, least));
  return out;
}

Violations simulated_bits(const CheckedScheme& one, const std::string& text) {
  Violations out;
  auto config = tiny("gpt", text);
  config.train.evaluate_every = 2;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    config.train.precision = precision;
    add(out, one.replayed() ? one.against_definition(simulated(config, 4))
                            : differences(one.run_of(simulated(config, 4)), one.run_of(config)));
  }
  return out;
}

/// Bytes and memory of every rank, where nothing is computed.
Violations simulated_bytes(const CheckedScheme& one, const std::string& text) {
  const auto config = tiny("gpt", text);
  const RunRecord real = one.run_of(config);
  auto cluster = simulated(config, 4);
  cluster.sim.numerics = false;
  const RunRecord row = one.run_of(cluster);
  Violations out;
  for (std::size_t r = 0; r < real.ranks.size(); ++r) {
    const double sent = real.ranks[r].bytes_sent_per_step;
    if (std::abs(row.ranks[r].bytes_sent_per_step - sent) > 0.01 * sent)
      out.push_back(fmt::format("simulated rank {} sends {} bytes in a step, but a real one {}", r,
                                row.ranks[r].bytes_sent_per_step, sent));
    for (const MemoryKind kind :
         {MemoryKind::parameter, MemoryKind::gradient, MemoryKind::optimizer})
      if (row.ranks[r].at_peak[kind] != real.ranks[r].at_peak[kind])
        out.push_back(fmt::format("simulated rank {} holds {} bytes of kind {}, but a real one {}",
                                  r, row.ranks[r].at_peak[kind], name_of(kind),
                                  real.ranks[r].at_peak[kind]));
  }
  return out;
}

/// Whether the options are not the scheme's own, but those of a command line.
bool is_given(const TriedScheme& one) {
  const auto& own = one.info->tried;
  return one.tried && std::none_of(own.begin(), own.end(),
                                   [&](const TriedOptions& tried) { return &tried == one.tried; });
}

/// Whether the identity is one of the compressor that the options have.
bool is_of_compressor(const Identity& identity, const TriedScheme& one) {
  for (const Field& field : one.options().fields())
    if (const auto* name = std::get_if<std::string*>(&field.value);
        name && field.name == "compressor")
      return std::count(identity.settings.begin(), identity.settings.end(),
                        fmt::format("scheme.{}.compressor={}", one.info->name, **name)) > 0;
  return false;
}

/// With the scheme's default options all of them, as identities name the options that they need;
/// with a compressor that is given, those of the compressor.
Violations identities(const CheckedScheme& one, const std::string& text) {
  Violations out;
  for (const Identity& identity : one.scheme.info->identities)
    if ((identity.at_world == 0 || identity.at_world == one.world) &&
        (!one.scheme.tried || is_of_compressor(identity, one.scheme)))
      add(out, broken(identity, *one.scheme.info, one.world, text));
  if (one.scheme.info->identities.empty())
    out.push_back(
        "the scheme names no identity (SchemeInfo::identities), so a mistake that it shares with "
        "its definition does not show");
  return out;
}
/// Two runs of workers that do not wait for each other differ.
bool runs_are_equal(const CheckedScheme& one) { return !one.replayed(); }
bool has_something_to_show(const CheckedScheme& one) {
  const std::vector<Identity>& all = one.scheme.info->identities;
  if (one.scheme.tried)
    return is_given(one.scheme) && std::any_of(all.begin(), all.end(), [&](const auto& identity) {
             return is_of_compressor(identity, one.scheme);
           });
  return !all.empty() || (one.scheme.promise() == Promise::own_algorithm &&
                          one.scheme.info->topology != SchemeTopology::none);
}

/// What the settings describe, for a small model.
ExperimentConfig small_experiment(const std::vector<std::string>& settings,
                                  const ExperimentConfig& small) {
  ExperimentConfig config = runner::experiment_of("identity", settings).common;
  config.model = small.model;
  config.train = small.train;
  config.optimizer.lr = small.optimizer.lr;
  return config;
}

constexpr std::string_view same_bits = "ends with the bits of its definition";

constexpr SchemeCheck checks[] = {
    {"gpt", same_bits, gpt},
    {"sgd", "does so with plain SGD", sgd},
    {"bf16", "does so in bf16", bf16},
    {"fp16", "does so in fp16, where steps that overflow are skipped", fp16, is_exact},
    {"accumulation", "does so with two micro-batches a step", accumulation},
    {"lamb", "does so with LAMB and clipping, which sum over the whole model", lamb,
     has_whole_updates},
    {"evaluation", "evaluates with the parameters of its definition", evaluation},
    {"dropout", "drops what its definition drops", dropout},
    {"batch_norms", "ends with the running statistics of its definition", batch_norms},
    {"tied_tables", "trains units that lend each other parameters", tied_tables},
    {"lengths", "trains samples of different lengths", lengths},
    {"recomputation", "recomputes activations with the same bits", recomputation, runs_are_equal},
    {"resumption", "goes on from a checkpoint with the bits of the unbroken run", resumption,
     resumes},
    {"bytes", "sends what it says that it must send, and hardly more", bytes, runs_are_equal},
    {"simulated_bits", "computes the same bits in a simulated cluster, in fp32 and bf16",
     simulated_bits, nullptr, true},
    {"simulated_bytes", "sends and holds the same bytes in a simulated cluster", simulated_bytes,
     runs_are_equal, true},
    {"identities", "equals other schemes where it says so", identities, has_something_to_show},
};

}  // namespace

std::span<const SchemeCheck> scheme_checks() { return checks; }

bool concerns(const SchemeCheck& check, const CheckedScheme& one) {
  return !check.applies || check.applies(one);
}

Violations broken(const Identity& identity, const SchemeInfo& scheme, int world,
                  const std::string& text) {
  Violations out;
  for (const char* model : {"gpt", "mlp"}) {
    const ExperimentConfig small = tiny(model, text);
    std::vector<std::string> settings = {fmt::format("data.path='{}'", text)};
    settings.insert(settings.end(), identity.settings.begin(), identity.settings.end());
    ExperimentConfig config = small_experiment(settings, small);
    const RunRecord row =
        run(runner::plan_training(config, std::string(scheme.name), world), &scheme);
    const std::string other(identity.other);
    settings.insert(settings.end(), identity.other_settings.begin(), identity.other_settings.end());
    config = small_experiment(settings, small);
    const RunRecord expected = other == reference_scheme
                                   ? reference_of(config, world)
                                   : run(runner::plan_training(config, other, world));
    Violations differing = wrong_losses(row, expected, identity.to_the_bit ? 0 : 1e-5);
    if (identity.to_the_bit) add(differing, wrong_parameters(row, expected));
    for (const std::string& one : differing)
      out.push_back(fmt::format("it must equal {} (with {}): {}", other,
                                fmt::join(identity.settings, ", "), one));
  }
  return out;
}

}  // namespace ringside::tools::check
