// The definition of adpsgd: a replay on one rank of the order in which servers took messages.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/scheme/local_replicas.h"
#include "ps/schemes/adpsgd.h"

namespace ringside::ps {
namespace {

/// A worker computes a step once its replica for it is there: an active worker once the averaging
/// of the step has happened, and a passive one once its latest update has been added to what its
/// server holds. Both happen when they come next in the record of the server.
class PairedReplay final : public LocalReplicas {
 public:
  PairedReplay(const RankContext& context, const AdpsgdOptions& options)
      : LocalReplicas(context, context.plan.defines),
        pairing_(options, context.plan.defines, context.plan.train.seed),
        workers_(static_cast<std::size_t>(context.plan.defines)) {
    const std::vector<ChunkHistory>& record = context.plan.history;
    if (record.size() != pairing_.passive().size())
      throw Error("the record of the run has {} servers in place of {}", record.size(),
                  pairing_.passive().size());
    for (const ChunkHistory& history : record) {
      if (history.cut) throw Error("the record of the run is not whole, so it cannot be replayed");
      servers_.push_back({EventReader(history), {}});
    }
  }

  void attach(Model& model) override {
    LocalReplicas::attach(model);
    const auto copy_of = [&](int worker) {
      const Tensor out = context().device.tensor({model.parameter_count()}, MemoryKind::parameter);
      kernels().copy({.in = values(worker), .out = out});
      return out;
    };
    for (std::size_t s = 0; s < servers_.size(); ++s)
      servers_[s].replica = copy_of(pairing_.passive()[s]);
    for (int w = 0; w < own_replicas(); ++w) {
      at(w).before = copy_of(w);
      at(w).mean = copy_of(w);
      at(w).asks = is_active(w);
    }
  }

  std::optional<StepAssignment> next_assignment(std::int64_t) override {
    go_on();
    const std::int64_t each = context().plan.train.accumulation / own_replicas();
    for (int w = 0; w < own_replicas(); ++w) {
      Worker& worker = at(w);
      const bool has_replica = is_active(w) || !worker.asks;
      if (has_replica && std::exchange(worker.evaluates, false))
        return StepAssignment{worker.steps - 1, w * each, each, false, true};
      if (worker.asks || worker.steps == context().plan.train.steps) continue;
      computing_ = w;
      return StepAssignment{worker.steps, w * each, each, true, false};
    }
    check_end();
    return {};
  }
  Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass&) override {
    return loader.read(slice);
  }

  bool step(const StepInfo& info) override {
    const int w = computing_;
    Worker& worker = at(w);
    update(w, info);
    ++worker.steps;
    worker.evaluates = evaluates_after(context().plan.train, info.step);
    if (is_active(w)) {
      // x becomes m + (x' - x), where x' are the updated values.
      kernels().blend({.in = worker.before, .out = values(w), .in_scale = -1, .out_scale = 1});
      kernels().add({.in = worker.mean, .out = values(w)});
      round_parameters(w);
      kernels().copy({.in = values(w), .out = worker.before});
      worker.asks = worker.steps < context().plan.train.steps;
    } else {
      worker.asks = true;
    }
    return true;
  }

  void visit_parameters(const ParameterVisitor& visit) override {
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      kernels().copy({.in = servers_[s].replica, .out = values(pairing_.passive()[s])});
      round_parameters(pairing_.passive()[s]);
    }
    LocalReplicas::visit_parameters(visit);
  }

 private:
  struct Worker {
    std::int64_t steps = 0;  // that it has computed
    bool asks = false;       // its message has not been taken yet
    bool evaluates = false;  // after its latest step
    Tensor before;           // its replica before the step that it computes
    Tensor mean;             // active: the reply of the step
  };
  struct Served {
    EventReader events;
    Tensor replica;
  };

  Worker& at(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  bool is_active(int worker) const { return pairing_.server_of(worker) < 0; }
  const Kernels& kernels() const { return context().device.kernels(); }

  void go_on() {
    for (std::size_t s = 0; s < servers_.size(); ++s)
      for (auto event = servers_[s].events.peek(); event && can_come(s, event->worker);
           event = servers_[s].events.peek()) {
        take(servers_[s].replica, event->worker);
        servers_[s].events.skip();
      }
  }

  bool can_come(std::size_t server, int worker) {
    if (worker >= own_replicas())
      throw Error("the record of the run names worker {} of {}", worker, own_replicas());
    const int wanted =
        is_active(worker) ? pairing_.met_by(worker, at(worker).steps) : pairing_.server_of(worker);
    return at(worker).asks && wanted == static_cast<int>(server);
  }

  /// The server holds y. An active worker gives x: y = (x + y) / 2. A passive one adds its update,
  /// and goes on from y.
  void take(const Tensor& y, int w) {
    Worker& worker = at(w);
    worker.asks = false;
    if (is_active(w)) {
      kernels().blend({.in = worker.before, .out = y, .in_scale = 0.5F, .out_scale = 0.5F});
      kernels().copy({.in = y, .out = worker.mean});
      return;
    }
    kernels().blend({.in = worker.before, .out = values(w), .in_scale = -1, .out_scale = 1});
    kernels().add({.in = values(w), .out = y});
    kernels().copy({.in = y, .out = values(w)});
    kernels().copy({.in = y, .out = worker.before});
    round_parameters(w);
  }

  void check_end() const {
    for (const Served& server : servers_)
      if (const auto event = server.events.peek())
        throw Error(
            "the record of the run does not fit: nothing can follow what a server has taken, but "
            "it has a message of worker {}",
            event->worker);
    const std::int64_t steps = context().plan.train.steps;
    for (std::size_t w = 0; w < workers_.size(); ++w)
      if (workers_[w].steps < steps || workers_[w].asks)
        throw Error("the record of the run ends before the {} steps of worker {}", steps, w);
  }

  Pairing pairing_;
  std::vector<Worker> workers_;
  std::vector<Served> servers_;
  int computing_ = 0;
};

}  // namespace

std::unique_ptr<SyncScheme> define_adpsgd(const RankContext& context,
                                          const AdpsgdOptions& options) {
  return std::make_unique<PairedReplay>(context, options);
}

}  // namespace ringside::ps
