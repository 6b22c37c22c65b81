// Replay of runs whose workers take local steps, and exchange with a centre without waiting.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/schemes/centred.h"
#include "ps/schemes/replay_order.h"

namespace ringside::ps {

/// The base of definitions that repeat RunPlan::history with the replicas of all workers side by
/// side. A worker computes the local steps of its next push, which happens range by range as the
/// record says, and goes on once the reply of every range has come. The rule is that of a kind.
class CentredReplay : public Centred {
 public:
  /// A push has `period` steps, or, if `may_be_fewer`, at most so many.
  CentredReplay(const RankContext& context, std::int64_t period, bool may_be_fewer);

  void attach(Model& model) override;
  std::optional<StepAssignment> next_assignment(std::int64_t done) override;
  Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass&) override {
    return loader.read(slice);
  }
  void before_forward(std::size_t unit, const Pass& pass) override;
  bool step(const StepInfo& info) override;
  void visit_parameters(const ParameterVisitor& visitor) override;

 protected:
  /// The worker has computed its local steps, of which every range's part will be pushed.
  virtual void offer(int worker) { static_cast<void>(worker); }
  /// What a server does with a push to a range, with the worker's push when a merge takes it, with
  /// the merge, and with a worker that reads the reply to its push.
  virtual void push(std::size_t range, const RangeEvent& event) = 0;
  virtual void take(std::size_t range, int worker) {
    static_cast<void>(range), static_cast<void>(worker);
  }
  virtual void merge(std::size_t range) { static_cast<void>(range); }
  virtual void reply(std::size_t range, int worker) = 0;

  std::size_t ranges() const { return walk_.ranges(); }
  /// The range's part of a whole model.
  Tensor of_range(std::size_t range, const Tensor& model) const;
  Tensor centre(std::size_t range) const { return of_range(range, centre_); }
  const Tensor& centre() const { return centre_; }
  Tensor replica(std::size_t range, int worker) const { return of_range(range, values(worker)); }
  std::int64_t first_of(std::size_t range) const { return context().plan.history[range].begin; }

 private:
  struct Worker {
    std::int64_t steps = 0, pushes = 0;
    std::int64_t local = 0;      // steps since its latest push
    bool evaluates = false;      // after its latest step, once it has read the centre
    Tensor centre{};             // as the worker read it last to evaluate it
    std::vector<bool> awaits{};  // by range: whether the reply to a push has not come yet
    std::vector<bool> begins{};  // by range: whether a process reads what it begins with
  };
  void repeat(std::size_t range, const RangeEvent& event);
  void check_pushes(std::size_t worker) const;
  void take_seat(std::size_t worker, std::int64_t first);

  std::int64_t period_;
  bool may_be_fewer_;
  ReplayOrder walk_;
  std::vector<Worker> workers_;
  Tensor centre_;
  std::size_t computing_ = 0;
};

}  // namespace ringside::ps
