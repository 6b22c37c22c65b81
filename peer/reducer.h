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
/// first.
struct Bucket {
  std::string name;
  std::size_t first_unit = 0;
  std::int64_t begin = 0, count = 0;
};

/// Divides the model into buckets of at least `bytes`; the last bucket may be smaller. No unit is
/// cut. Backward finishes units from the last to the first, and the buckets are in that order.
std::vector<Bucket> make_buckets(const Model& model, DType dtype, double bytes);

/// Starts to sum a bucket as soon as all of its units have their gradients. For one thread.
class Reducer {
 public:
  /// The operation that sums a bucket over ranks, in place.
  struct Operation {
    std::string name;
    std::function<WorkPtr(const Tensor& gradients)> begin;
  };

  /// `gradients` are those of the whole model. The device and the timeline outlive the reducer.
  Reducer(Device& device, Timeline& timeline, std::vector<Bucket> buckets, const Tensor& gradients,
          Operation operation);

  /// Makes finalize() add up the sums of all micro-batches in `total`, a gradient of the whole
  /// model. A bucket may then be summed over ranks once in each micro-batch.
  void add_up_in(const Tensor& total) { total_ = total; }

  const std::vector<Bucket>& buckets() const { return buckets_; }

  /// Says that the unit's gradients of the micro-batch are complete; does not block.
  void add(std::size_t unit, std::int64_t micro_batch);
  /// Waits for the bucket if it is under way. Afterwards `gradients`, or `total` after add_up_in(),
  /// hold the bucket's sums.
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
    WorkPtr work;
    std::int64_t micro_batch = 0;
  };

  Device& device_;
  Timeline& timeline_;
  std::vector<Bucket> buckets_;
  Tensor gradients_, total_;
  Operation operation_;
  std::vector<UnderWay> under_way_;  // by bucket; `work` is null unless the bucket is under way
};

}  // namespace ringside::peer
