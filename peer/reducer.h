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

/// Elements [begin, begin + count) of the model: those of consecutive units, `first_unit` the
/// first.
struct Bucket {
  std::string name;
  std::size_t first_unit = 0;
  std::int64_t begin = 0, count = 0;
};

/// The model in buckets of at least `bytes`, but for the last one; no unit is cut. Units finish
/// backward from the last to the first, and buckets come in that order.
std::vector<Bucket> make_buckets(const Model& model, DType dtype, double bytes);

/// Sends a bucket on its way when the last of its units has its gradients. For one thread.
class Reducer {
 public:
  /// What sums up a bucket over ranks, in place.
  struct Operation {
    std::string name;
    std::function<WorkPtr(const Tensor& gradients)> begin;
  };

  /// `gradients`: of the whole model. Device and timeline outlive it.
  Reducer(Device& device, Timeline& timeline, std::vector<Bucket> buckets, const Tensor& gradients,
          Operation operation);

  /// Has the sums of every micro-batch added up in `total`, a gradient of the whole model, so that
  /// buckets may set out once a micro-batch.
  void add_up_in(const Tensor& total) { total_ = total; }

  const std::vector<Bucket>& buckets() const { return buckets_; }

  /// The unit's gradients of the micro-batch are whole; does not block.
  void add(std::size_t unit, std::int64_t micro_batch);
  /// Waits until the bucket is back, if it is on its way: `gradients`, or `total`, have its sums.
  void finalize(std::size_t bucket);
  /// The same for the bucket of a unit whose gradients are about to be overwritten.
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
  std::vector<UnderWay> under_way_;  // by bucket; without work: none
};

}  // namespace ringside::peer
