#include "experiments/tools/bench/own_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/observe/timeline.h"
#include "core/scheme/rank_context.h"
#include "experiments/runner/registry/registry.h"
#include "peer/comm/sum.h"

namespace ringside::tools::bench {
Operands operands_of(Device& device, const CommOperation& operation, std::int64_t count, int rank,
                     int ranks) {
  const bool exchanges = operation.name == "all_to_all";
  const auto make = [&] { return device.tensor({count}, MemoryKind::communication); };
  const Tensor array = make();
  return {array, array.range(rank * (count / ranks), count / ranks), exchanges ? make() : array};
}

const Tensor& result_of(const CommOperation& operation, const Operands& operands) {
  return operation.gives_part ? operands.part : operands.other;
}

WorkPtr begin(Communicator& comm, const CommOperation& operation, const Operands& operands) {
  const auto& [array, part, other] = operands;
  if (operation.name == "all_reduce") return comm.all_reduce(array);
  if (operation.name == "reduce_scatter") return comm.reduce_scatter(array, part);
  if (operation.name == "all_gather") return comm.all_gather(part, array);
  if (operation.name == "broadcast") return comm.broadcast(array, 0);
  if (operation.name == "all_to_all") return comm.all_to_all(array, other);
  throw Error("bench comm: no communicator has {}", operation.name);
}

OwnRank::OwnRank(std::unique_ptr<Device> device, Communicators communicators, SpinBarrier barrier,
                 int rank, int ranks, std::string note)
    : device_(std::move(device)),
      communicators_(std::move(communicators)),
      barrier_(std::move(barrier)),
      rank_(rank),
      ranks_(ranks),
      note_(std::move(note)) {}

void OwnRank::prepare(const CommOperation& operation, std::int64_t count) {
  operation_ = &operation;
  operands_ = {};  // so that the memory can be used again
  operands_ = operands_of(*device_, operation, count, rank_, ranks_);
  if (device_->runs_behind()) host_.resize(static_cast<std::size_t>(count));
}

void OwnRank::fill() {
  const bool exchanges = operands_.array.buffer() != operands_.other.buffer();
  if (!device_->runs_behind()) {
    operation_->fill(operands_.array.span<float>(), rank_, ranks_);
    if (exchanges) std::ranges::fill(operands_.other.span<float>(), -1.0F);
    return;
  }
  operation_->fill(host_, rank_, ranks_);
  device_->write(operands_.array, std::as_bytes(std::span(host_)));
  if (exchanges) {
    std::ranges::fill(host_, -1.0F);
    device_->write(operands_.other, std::as_bytes(std::span(host_)));
  }
  device_->synchronize();
}

void OwnRank::call(const std::string& way) {
  if (way == bound_way) return sum_alone();
  const auto found = std::ranges::find(communicators_, way, &Communicators::value_type::first);
  if (found == communicators_.end()) throw Error("no communicator of the name '{}'", way);
  Communicator& comm = *found->second;
  comm.complete([&] { return begin(comm, *operation_, operands_); });
  if (device_->runs_behind()) device_->synchronize();
}

std::int64_t OwnRank::count_wrong() {
  const Tensor& result = result_of(*operation_, operands_);
  if (!device_->runs_behind()) return operation_->count_wrong(result.span<float>(), rank_, ranks_);
  const auto values = std::span(host_).first(static_cast<std::size_t>(result.count()));
  device_->read(result, std::as_writable_bytes(values));
  return operation_->count_wrong(values, rank_, ranks_);
}

/// Adds up as many arrays as there are ranks, each as large as this rank's part, and stores the sum
/// into all of them.
void OwnRank::sum_alone() const {
  auto* first = reinterpret_cast<std::byte*>(operands_.array.data<float>());
  const auto n = static_cast<std::size_t>(operands_.array.count() / ranks_);
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> targets;
  for (int r = 0; r < ranks_; ++r) {
    targets.push_back(first + static_cast<std::size_t>(r) * n * 4);
    sources.push_back(targets.back());
  }
  peer::sum_in_order(DType::f32, sources, targets, n);
}

std::unique_ptr<OwnRank> make_own_rank(const RunPlan& plan, int rank, Store& store,
                                       const std::vector<Algorithm>& algorithms) {
  const runner::DeviceRow& row = runner::find_device(plan.device.kind);
  std::unique_ptr<Device> device = row.make(plan, rank, nullptr);
  Timeline timeline(*device);
  const RankContext context{plan, rank, *device, store, timeline, nullptr, {}, row.links};
  OwnRank::Communicators communicators;
  for (const Algorithm algorithm : algorithms) {
    const std::string name(name_of(algorithm));
    communicators.emplace_back(
        name, context.communicator({fmt::format("bench {}", name), rank, plan.world, algorithm}));
  }
  std::string note;
  if (shares_device(plan))
    note = fmt::format("{} ranks share {} GPU{}: not a performance figure", plan.world, gpus(plan),
                       gpus(plan) == 1 ? "" : "s");
  return std::make_unique<OwnRank>(std::move(device), std::move(communicators),
                                   SpinBarrier(store, rank, plan.world, plan.train.timeout_s), rank,
                                   plan.world, std::move(note));
}

}  // namespace ringside::tools::bench
