#include "ps/schemes/ps_compression.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/compress/compressor_info.h"
#include "core/scheme/check_compression.h"
#include "ps/schemes/placement.h"

namespace ringside::ps {
namespace {

CompressionOptions pulls_of(const PsOptions& options) {
  CompressionOptions pulls = options.compression;
  pulls.compressor = options.pull_compressor;
  pulls.memory = ErrorMemory::none;
  return pulls;
}

void check_codes(const std::string& key, const std::string& compressor) {
  const CompressorInfo& row = find_compressor(compressor);
  if (row.stands_alone && row.estimates_sum) return;
  throw Error(
      "scheme.ps.{} = '{}': a server decodes every message by itself, and those of this compressor "
      "are understood only {}; choose fp16, bf16, int8, onebit or topk",
      key, compressor,
      row.stands_alone ? "as votes of all workers" : "together, or with those of steps before");
}

/// The bytes of the codes of a whole model.
double bytes_of_codes(const CompressionOptions& options, const StepShape& shape) {
  if (!ringside::compresses(options)) return static_cast<double>(shape.parameter_bytes);
  double bytes = 0;
  for (const Shape& tensor : shape.tensors)
    bytes += find_compressor(options.compressor).bytes(options, tensor);
  return bytes;
}

}  // namespace

bool compresses(const PsOptions& options) {
  return ringside::compresses(options.compression) || options.pull_compressor != no_compressor;
}

ChunkCompression compression_of(const PsOptions& options, const RunPlan& plan) {
  return {options.compression, pulls_of(options), static_cast<std::uint64_t>(plan.train.seed)};
}

void check_ps_compression(const PsOptions& options, const RunPlan& plan) {
  if (!compresses(options)) return;
  CompressionOptions either = options.compression;
  if (ringside::compresses(options.compression))
    check_codes("compressor", options.compression.compressor);
  else
    either = pulls_of(options);
  if (options.pull_compressor != no_compressor)
    check_codes("pull_compressor", options.pull_compressor);
  check_compression(either, plan);
  const bool asp = options.consistency == Consistency::asp;
  if ((options.consistency != Consistency::bsp && !asp) || options.backup_workers > 0)
    throw Error(
        "scheme.ps.compressor, pull_compressor: they go with consistency 'bsp' without backup "
        "workers and with 'asp', not with '{}'{}; leave them out",
        name_of(options.consistency), options.backup_workers > 0 ? " with backup workers" : "");
  if (options.sum_group > 1)
    throw Error(
        "scheme.ps.sum_group = {}: the workers of a group push sums of their gradients, which are "
        "not compressed; leave compressor and pull_compressor out",
        options.sum_group);
  if (options.delay_compensation > 0 && options.pull_compressor != no_compressor)
    throw Error(
        "scheme.ps.delay_compensation = {} compares values with those that a worker read, which "
        "scheme.ps.pull_compressor rounds; leave one of them out",
        options.delay_compensation);
}

double compressed_ps_bytes(const StepShape& shape, const PsOptions& options) {
  const double p = bytes_of_codes(options.compression, shape);
  const double q = bytes_of_codes(pulls_of(options), shape);
  const double n = shape.world, s = shape.servers;
  if (options.placement == Placement::dedicated) return std::max(p, n * q / s);
  // Of a rank whose server keeps a share of the model.
  const auto worker_and_server = [&](double share) {
    return (1 - share) * p + (n - 1) * share * q;
  };
  if (options.placement == Placement::colocated)
    return std::max(worker_and_server(1 / s), s < n ? p : 0);
  const auto shares = shares_of_servers(options.placement, options.servers, shape.world);
  const auto all =
      static_cast<double>(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}));
  const double dedicated = options.servers > 0 ? static_cast<double>(shares.back()) / all : 0;
  return std::max(n * dedicated * q, worker_and_server(static_cast<double>(shares.front()) / all));
}

}  // namespace ringside::ps
