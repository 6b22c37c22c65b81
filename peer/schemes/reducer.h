// Reducer: gradients of consecutive units, summed over ranks while backward goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/models/model.h"
#include "core/observe/timeline.h"

namespace ringside::peer {

/// Elements [begin, begin + count) of the model: consecutive units, of which `first_unit` is the
/// first. A bucket that closes is the last one of units whose gradients are complete at one time
/// (Model::divides_gradients).
struct Bucket {
  std::string name;
  std::size_t first_unit = 0;
  std::int64_t begin = 0, count = 0;
  bool closes = true;
};

/// Divides the model into buckets of at least `bytes`; one that closes may be smaller. No unit is
/// cut. Backward finishes units from the last to the first, and the buckets are in that
/// order.
std::vector<Bucket> make_buckets(const Model& model, DType dtype, double bytes);

/// Sums gradients over ranks, bucket by bucket. For one thread.
class Reducer {
 public:
  /// The operation that sums a bucket over ranks, in the given dtype: in place, unless there is a
  /// function `finish`.
  struct Operation {
    std::string name;
    DType dtype;
    std::function<WorkPtr(std::size_t bucket, const Tensor& gradients)> begin;
    /// Whether a bucket begins as soon as its gradients are complete, beside the rest of backward.
    /// If not, buckets begin with the next one that closes, which is after backward unless the
    /// model is a part of a pipeline, and are waited for at once.
    bool overlaps = true;
    /// The rounds of a bucket, and the function that begins each after the first; null work: the
    /// round moves nothing. The next round of the buckets under way begins when another bucket
    /// does, or when they are waited for.
    int rounds = 1;
    std::function<WorkPtr(std::size_t bucket, int round, const Tensor& total)> next{};
    /// Writes the bucket's sum to its part of `total`, after the last round. Buckets are then
    /// reduced once a step.
    std::function<void(std::size_t bucket, const Tensor& total)> finish{};
  };

  /// `gradients` and `total` cover the whole model. `total` receives the sums: over ranks, and then
  /// over micro-batches if a bucket is reduced in several of them. The two may be one tensor if a
  /// bucket is reduced once. If their dtype is not the operation's, a bucket on its way lies in a
  /// copy of kind communication, unless it can lie in `total` itself. The device and the
  /// timeline outlive the reducer.
  Reducer(Device& device, Timeline& timeline, std::vector<Bucket> buckets, const Tensor& gradients,
          const Tensor& total, Operation operation);

  const std::vector<Bucket>& buckets() const { return buckets_; }

  /// Notes that the unit's gradients are complete. `micro_batch` counts the reductions of a step
  /// from 0: reduction 0 sets `total`, and the others are added to it. Blocks only if the operation
  /// does not overlap backward, or has several rounds: then for rounds of earlier buckets.
  void add(std::size_t unit, std::int64_t micro_batch);
  /// Waits for the bucket if it is under way. Afterwards `total` holds the bucket's sums.
  void finalize(std::size_t bucket);
  /// If the bucket's sum of this micro-batch has arrived, does the same without waiting and returns
  /// true.
  bool finalize_if_ready(std::size_t bucket, std::int64_t micro_batch);
  /// Does what finalize() does for the bucket of a unit whose gradients are about to be
  /// overwritten.
  void finalize_of_unit(std::size_t unit);
  void finalize_all();

 private:
  struct UnderWay {
    WorkPtr work{};
    Tensor values{};
    std::int64_t micro_batch = 0;
    int round = -1;  // -1: the bucket is not under way
  };

  void begin(std::size_t bucket, std::int64_t micro_batch);
  /// Sums the bucket, which closes, and those before it back to the one that closes before.
  void sum_at_once(std::size_t bucket, std::int64_t micro_batch);
  void wait(std::size_t bucket);
  void begin_next(std::size_t bucket);
  /// Begins the next rounds of the bucket as long as the present one moves nothing.
  void begin_empty_rounds(std::size_t bucket);
  /// Waits for the bucket's round, and begins the next one.
  void go_on(std::size_t bucket);
  Tensor message(const Bucket& bucket, bool first) const;

  Device& device_;
  Timeline& timeline_;
  std::vector<Bucket> buckets_;
  Tensor gradients_, total_;
  Operation operation_;
  std::vector<UnderWay> under_way_;  // by bucket
};

/// All-reduces the buckets among the ranks of a communicator; both outlive the reducer.
Reducer::Operation all_reduce_by(Communicator& communicator, const std::vector<Bucket>& buckets,
                                 DType dtype, bool overlaps);

}  // namespace ringside::peer
