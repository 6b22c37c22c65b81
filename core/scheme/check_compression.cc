#include "core/scheme/check_compression.h"

#include "core/base/error.h"
#include "core/compress/compressor_info.h"
#include "core/scheme/plain_scheme.h"

namespace ringside {

void check_compression(const CompressionOptions& options, const RunPlan& plan,
                       bool each_micro_batch) {
  if (!compresses(options)) return;
  const CompressorInfo& row = find_compressor(options.compressor);
  const std::string given =
      fmt::format("scheme.{}.compressor = '{}'", plan.scheme, options.compressor);
  if (plan.train.precision == Precision::fp16)
    throw Error(
        "{}: compressors would remember, and round, in the units of a loss scale that changes; set "
        "train.precision = \"bf16\"",
        given);
  refuse_skipped_steps(plan, given, "compressors would remember what is not finite");
  if (!row.estimates_sum && options.memory == ErrorMemory::residual)
    throw Error(
        "{} has no scale, so no error to remember; leave scheme.{}.memory out, or use 'onebit'",
        given, plan.scheme);
  if (converts_gradients(plan.train))
    throw Error("{} decides in how many bits gradients move; leave train.reduce_precision out",
                given);
  if (row.has_own_memory && options.memory == ErrorMemory::residual)
    throw Error("{} has a memory of its own; leave scheme.{}.memory out", given, plan.scheme);
  if (options.dgc_momentum >= 1)
    throw Error("scheme.{}.dgc_momentum = {} must be less than 1", plan.scheme,
                options.dgc_momentum);
  if (plan.train.reduce == Reduce::every && !each_micro_batch)
    throw Error("{}: a rank compresses once a step; leave train.reduce = 'every' out", given);
}

std::vector<Identity> lossless_identities(std::string_view scheme) {
  std::vector<Identity> out;
  for (const CompressorInfo& row : compressors()) {
    if (row.lossless.settings.empty()) continue;
    Identity one{{fmt::format("scheme.{}.compressor={}", scheme, row.name)},
                 "single",
                 row.lossless.to_the_bit};
    for (const std::string& setting : row.lossless.settings)
      one.settings.push_back(fmt::format("scheme.{}.{}", scheme, setting));
    one.of_plugin = row.of_plugin;
    // AdamW divides by what may be little but rounding.
    if (!one.to_the_bit) one.settings.emplace_back("optimizer.kind=sgd");
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace ringside
