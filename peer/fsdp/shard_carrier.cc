#include "peer/fsdp/shard_carrier.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/comm/window.h"
#include "core/scheme/rank_context.h"
#include "peer/schemes/exposed.h"

namespace ringside::peer {
namespace {

/// Several operations as one.
class AllOf : public Work {
 public:
  AllOf(std::vector<WorkPtr> works, std::string_view operation, const Tensor& whole)
      : works_(std::move(works)) {
    note = {"window", operation, static_cast<std::int64_t>(whole.bytes())};
  }
  void wait() override {
    for (const WorkPtr& work : works_) work->wait();
  }
  bool ready() override {
    return std::all_of(works_.begin(), works_.end(),
                       [](const WorkPtr& work) { return work->ready(); });
  }
  Span span() const override {
    Span all = works_.front()->span();
    for (const WorkPtr& work : works_) {
      const Span one = work->span();
      if (one.begin.value < all.begin.value) all.begin = one.begin;
      if (one.end.value > all.end.value) all.end = one.end;
    }
    return all;
  }

 private:
  std::vector<WorkPtr> works_;
};

class OnDemandCarrier : public ShardCarrier {
 public:
  OnDemandCarrier(const RankContext& context, Communicator& group, const Shards& shards,
                  const ShardedStorage& parameters)
      : context_(context),
        group_(group),
        shards_(shards),
        places_(context.device.tensor({(group.size() - 1) * shards.own_count()},
                                      MemoryKind::communication, parameters.values().dtype())),
        parameters_window_(parameters.shared() ? nullptr : group.expose(parameters.values())),
        places_window_(group.expose(places_)) {}

  WorkPtr gather(std::size_t fsdp_unit, const Tensor&, const Tensor& padded) override {
    std::vector<WorkPtr> works;
    // Every rank begins with itself, so that ranks do not all read from the same one at once.
    for (int step = 0; step < group_.size(); ++step) {
      const int owner = after(step);
      works.push_back(parameters_window_->get(owner, shards_.begin(fsdp_unit),
                                              part_of(padded, fsdp_unit, owner)));
    }
    return std::make_unique<AllOf>(std::move(works), "get", padded);
  }

  WorkPtr reduce(std::size_t fsdp_unit, const std::string&, const Tensor& gradient,
                 const Tensor& part, bool later) override {
    keep(part_of(gradient, fsdp_unit, group_.rank()), part, later);
    std::vector<WorkPtr> works;
    for (int step = 1; step < group_.size(); ++step) {
      const int owner = after(step);
      const Tensor shard = part_of(gradient, fsdp_unit, owner);
      const std::int64_t begin = place(group_.rank(), owner) + shards_.begin(fsdp_unit);
      works.push_back(later ? places_window_->add(shard, owner, begin)
                            : places_window_->put(shard, owner, begin));
    }
    return std::make_unique<AllOf>(std::move(works), later ? "add" : "put", gradient);
  }

  std::string_view gathers() const override { return "read"; }
  std::string_view reduces() const override { return "bring"; }

  bool meets_once() const override { return true; }

  void meet(const ShardedStorage& sums) override {
    wait_for_all(context_.timeline, group_, "gradients are here");
    const auto span = context_.timeline.scope(Activity::compute, "add up gradients");
    const Kernels& kernels = context_.device.kernels();
    for (std::size_t b = 0; b < shards_.size(); ++b) {
      const Tensor own = sums.shard(b);
      const auto brought_by = [&](int rank) {
        if (rank == group_.rank()) return own;
        return places_.range(place(rank, group_.rank()) + shards_.begin(b), own.count());
      };
      const Tensor sum = brought_by(0);
      for (int r = 1; r < group_.size(); ++r) kernels.add({.in = brought_by(r), .out = sum});
      if (group_.rank() != 0) kernels.copy({.in = sum, .out = own});
    }
  }

  void leave() override { wait_for_all(context_.timeline, group_, "parameters are new"); }

  /// The window counts what this rank does. What others do in this rank's memory is as much,
  /// because all ranks gather the same FSDP units as often, and shards are equally large.
  Traffic traffic() const override {
    const Traffic read = parameters_window_ ? parameters_window_->traffic() : Traffic{};
    const Traffic own = read + places_window_->traffic();
    return {own.sent + own.received, own.sent + own.received};
  }

 private:
  int after(int step) const { return (group_.rank() + step) % group_.size(); }
  Tensor part_of(const Tensor& padded, std::size_t fsdp_unit, int owner) const {
    const std::int64_t count = shards_.padded_count(fsdp_unit) / group_.size();
    return padded.range(owner * count, count);
  }
  /// Where `rank` has its place in the memory of another owner: owners have none for themselves.
  std::int64_t place(int rank, int owner) const {
    return (rank < owner ? rank : rank - 1) * shards_.own_count();
  }

  /// Adds this rank's gradient of its own shard to its sum.
  void keep(const Tensor& gradient, const Tensor& sum, bool later) const {
    if (gradient.buffer() == sum.buffer() && gradient.byte_offset() == sum.byte_offset()) return;
    const auto span = context_.timeline.scope(Activity::compute, "keep own gradient");
    const Kernels& kernels = context_.device.kernels();
    if (later)
      kernels.add({.in = gradient, .out = sum});
    else
      kernels.copy({.in = gradient, .out = sum});
  }

  const RankContext& context_;
  Communicator& group_;
  const Shards& shards_;
  Tensor places_;  // [ranks - 1, own_count]: of every other rank, in their order
  std::unique_ptr<Window> parameters_window_;  // null if ranks share the parameters
  std::unique_ptr<Window> places_window_;
};

/// On-demand communication (Wan et al., ICLR 2026): a rank that needs a unit reads its shards out
/// of their owners' memory, and brings its gradient into a place of its own at each owner, by the
/// one-sided operations of Window. Owners take no part in either. After the last micro-batch all
/// ranks meet: each adds up what was brought for its shard, in rank order, and updates the shard;
/// then all go on. A rank with longer sequences thus delays the others at the end of a step, and
/// not at each unit.
///
/// With N ranks and a model of P bytes a rank keeps (N-1)/N P bytes of places for the gradients
/// of other ranks (MemoryKind::communication). With A micro-batches it reads (N-1)/N P bytes for
/// each gathering, and sends (N-1)/N P bytes for each gradient that it brings: together as many as
/// the collectives of full_shard. Since a rank's micro-batches are added up at the owner before
/// ranks are, the order of sums is that of `single` whether gradients are brought once a step
/// (train.reduce "last") or in every micro-batch.
///
/// If the ranks share the parameters, units compute with the owners' shards where they are, and
/// what gather() would have read counts as read (UnshardedUnits::traffic).
///
/// Collective: blocks until all ranks of the group have called it. `parameters` are shards, or
/// shared. All arguments outlive the carrier.
std::unique_ptr<ShardCarrier> make_on_demand_carrier(const RankContext& context,
                                                     Communicator& group, const Shards& shards,
                                                     const ShardedStorage& parameters) {
  return std::make_unique<OnDemandCarrier>(context, group, shards, parameters);
}

class CollectiveCarrier : public ShardCarrier {
 public:
  CollectiveCarrier(const RankContext& context, Communicator& group, const Shards& shards,
                    const ShardedStorage& parameters)
      : context_(context), group_(group), shards_(shards), shared_(parameters.shared()) {}

  WorkPtr gather(std::size_t fsdp_unit, const Tensor& shard, const Tensor& padded) override {
    group_.name_next(shards_.fsdp_units()[fsdp_unit].name);
    return group_.all_gather(shard, padded);
  }
  WorkPtr reduce(std::size_t, const std::string& name, const Tensor& gradient, const Tensor& part,
                 bool) override {
    group_.name_next(name);
    return group_.reduce_scatter(gradient, part);
  }

  /// A rank that updates its shard of an FSDP unit has the FSDP unit's gradients of all ranks, so
  /// none of them reads the FSDP unit any more. What is left is to wait for the new values.
  void leave() override {
    if (shared_) wait_for_all(context_.timeline, group_, "parameters are new");
  }

 private:
  const RankContext& context_;
  Communicator& group_;
  const Shards& shards_;
  bool shared_;  // the parameters
};

}  // namespace

std::unique_ptr<ShardCarrier> make_collective_carrier(const RankContext& context,
                                                      Communicator& group, const Shards& shards,
                                                      const ShardedStorage& parameters) {
  return std::make_unique<CollectiveCarrier>(context, group, shards, parameters);
}

std::unique_ptr<ShardCarrier> make_carrier(const RankContext& context, const Degree& degree,
                                           Communicator* group, const Shards& shards,
                                           const ShardedStorage& parameters) {
  if (!group) return nullptr;
  if (degree.on_demand) return make_on_demand_carrier(context, *group, shards, parameters);
  return make_collective_carrier(context, *group, shards, parameters);
}

}  // namespace ringside::peer
