// The ranks of this project under `ringside bench comm`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/store.h"
#include "core/plan/run_plan.h"
#include "experiments/tools/bench/rank/serve.h"
#include "experiments/tools/bench/spin_barrier.h"

namespace ringside::tools::bench {

/// The tensors of an operation: `array` has `count` elements, `part` is this rank's part of it, and
/// `other`, of which only all_to_all makes use, is as large as the array.
struct Operands {
  Tensor array, part, other;
};
Operands operands_of(Device& device, const CommOperation& operation, std::int64_t count, int rank,
                     int ranks);
/// The tensor with the result of the operation.
const Tensor& result_of(const CommOperation& operation, const Operands& operands);
WorkPtr begin(Communicator& comm, const CommOperation& operation, const Operands& operands);

/// The way of a rank that does not communicate, but sums as many bytes of its own memory as an
/// all_reduce in one pass sums at least. On CPUs.
inline constexpr const char* bound_way = "bound";

/// A rank whose ways are the names of algorithms.
class OwnRank : public CommRank {
 public:
  /// `communicators` have the device's memory, and a name each.
  using Communicators = std::vector<std::pair<std::string, std::unique_ptr<Communicator>>>;
  OwnRank(std::unique_ptr<Device> device, Communicators communicators, SpinBarrier barrier,
          int rank, int ranks, std::string note = {});

  void prepare(const CommOperation& operation, std::int64_t count) override;
  void fill() override;
  void meet() override { barrier_.meet(); }
  /// On a GPU: returns when the GPU has the result, so the time includes the launch.
  void call(const std::string& way) override;
  std::int64_t count_wrong() override;
  std::string note() const override { return note_; }

 private:
  void sum_alone() const;

  std::unique_ptr<Device> device_;
  Communicators communicators_;
  SpinBarrier barrier_;
  int rank_, ranks_;
  std::string note_;
  const CommOperation* operation_ = nullptr;
  Operands operands_;
  std::vector<float> host_;  // copies of a GPU's arrays
};

/// A rank of the plan, on its device and with the communicators that ranks of runs have there. Its
/// process has the rank's environment. Throws Error that says what is missing.
std::unique_ptr<OwnRank> make_own_rank(const RunPlan& plan, int rank, Store& store,
                                       const std::vector<Algorithm>& algorithms);

}  // namespace ringside::tools::bench
