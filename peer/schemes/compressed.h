// Buckets of gradients that a compressor sums over workers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/compress/compressed_bucket.h"
#include "core/scheme/check_compression.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/scheme.h"
#include "peer/schemes/reducer.h"

namespace ringside::peer {

/// Sums buckets over the workers of a communicator by their compressors, for a Reducer. Encoding
/// and decoding take place on the device; messages move beside what is computed meanwhile.
class CompressedSum {
 public:
  /// All arguments outlive this object.
  CompressedSum(const RankContext& context, Communicator& communicator, const Model& model,
                const std::vector<Bucket>& buckets, const CompressionOptions& options);

  /// The operation by which a Reducer sums, or another caller that calls begin, next for every
  /// further round, and finish; this object outlives it.
  Reducer::Operation operation(DType gradients, bool overlaps);

  /// Visits the state of this worker's compressors, between two sums. Its names begin with `prefix`
  /// if the values are no gradients.
  void visit_state(const StateVisitor& visit, const char* prefix = "");

 private:
  struct One {
    Bucket range;
    std::int64_t first_tensor, tensors;  // of the model, in the bucket
    CompressedBucket bucket;
    Tensor messages{};               // of all workers if messages are gathered, else of this one
    std::vector<Tensor> received{};  // of the present round
  };

  /// Gives the message of a round, and begins to move it; null if the round has none.
  WorkPtr move(One& one, int round);

  const RankContext& context_;
  Communicator& communicator_;
  std::vector<One> buckets_;
};

/// Visits the state of one of a worker's compressors, but for the number of its steps, which
/// visit_compressor_steps() shows: values [begin, ...) of "error_memory" and of what else has one
/// value for each parameter, and of this worker alone. `like` has `begin`, the worker (replica),
/// and its place among the workers (holders), which all have what is common.
void visit_compressor(Device& device, CompressedBucket& bucket, const StateRange& like,
                      const StateVisitor& visit);
/// Visits the number of steps of the compressors of `tensors` tensors of the model from `first` on,
/// which is common to all workers: "compressor_steps" has a number for each tensor.
void visit_compressor_steps(Device& device, std::uint32_t& steps, std::int64_t first,
                            std::int64_t tensors, const StateRange& like,
                            const StateVisitor& visit);

/// The sum of messages that workers would all-reduce, in the order of workers, in new memory.
Tensor added_up(Device& device, const std::vector<Tensor>& messages);

/// The same sums in loops, on one rank that has the gradients of all workers.
class DefinedSum {
 public:
  /// The device outlives this object.
  DefinedSum(const RankContext& context, const Model& model, const std::vector<Bucket>& buckets,
             const CompressionOptions& options, int workers);

  /// Sums one bucket: `gradients` has that of each worker.
  void sum(std::size_t bucket, std::span<const Tensor> gradients, const Tensor& total);

 private:
  Device& device_;
  bool decodes_once_;  // all workers take the same messages, and one can do it for them
  std::vector<std::vector<CompressedBucket>> buckets_;  // of each worker
};

/// The definition of a scheme that compresses gradients in these buckets, once a step or in every
/// micro-batch, as define_sum() makes it.
using BucketsOfModel = std::function<std::vector<Bucket>(const Model& model)>;
std::unique_ptr<SyncScheme> define_compressed(const RankContext& context,
                                              const CompressionOptions& options,
                                              BucketsOfModel buckets_of);

}  // namespace ringside::peer
