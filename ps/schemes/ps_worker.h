// PsWorker: a worker of the scheme "ps", and its kinds.
#pragma once

#include <memory>
#include <vector>

#include "ps/schemes/ps_compression.h"
#include "ps/schemes/ps_parts.h"
#include "ps/schemes/replica_scheme.h"

namespace ringside::ps {

/// A bulk synchronous worker: when it begins a step, its values have all workers' gradients of the
/// step before. Other kinds derive from it.
class PsWorker : public ReplicaScheme {
 public:
  PsWorker(const RankContext& context, const PsOptions& options)
      : ReplicaScheme(context),
        options_(options),
        barrier_(options.pull == Pull::barrier),
        in_rounds_(rounds_of(context.plan.optimizer, skips_steps(context.plan.train)) > 0) {}

  void before_forward(std::size_t unit, const Pass&) override { link().wait_for(unit); }
  void after_backward(std::size_t unit, const Pass& pass) override {
    ReplicaScheme::after_backward(unit, pass);
    client().progress();
  }

  /// The first unit's gradient is sent last and its values are needed first, so waiting here until
  /// all gradients have been sent loses nothing.
  bool step(const StepInfo& info) override {
    client().flush();
    const bool finite = ReplicaScheme::step(info);
    if (barrier_) client().sum({});
    if (in_rounds_ || barrier_) link().pull(steps());
    if (barrier_) client().drain();
    return finite;
  }

 protected:
  /// If the optimizer updates only after sums over the whole model, this sends gradients without
  /// asking for new values: the requests would stay without a reply and fill the client's window.
  /// step() asks for these values after the sums, and after the barrier where there is one.
  void push(std::size_t unit, std::int64_t step) override {
    if (in_rounds_ || barrier_)
      link().push(unit, step);
    else
      link().push_pull(unit, step);
  }
  const PsOptions& options() const { return options_; }
  int group() const override { return sum_group_of(options_, context().plan.world); }
  ChunkCompression compression() const override { return compression_of(options_, context().plan); }
  /// All workers have read the same codes.
  ReplicaLink::OwnValues own_values() const override {
    const bool codes = options_.pull_compressor != no_compressor;
    return {codes, codes, codes};
  }

 private:
  TransportOptions transport_options(const Model&) const override {
    return ringside::ps::transport_options(context(), options_);
  }

  std::vector<Chunk> chunks(const Model& model) const override {
    return chunks_of(model, context().plan.world, options_);
  }

  PsOptions options_;
  bool barrier_;    // values are read within the step, once all workers have pushed
  bool in_rounds_;  // the optimizer needs sums over the model before it updates
};

/// A worker with a `sum_group` above 1, which adds gradients up within its group before it pushes.
std::unique_ptr<SyncScheme> make_grouped_ps(const RankContext& context, const PsOptions& options);
/// A worker of asp or ssp, or of bsp with backup workers.
std::unique_ptr<SyncScheme> make_free_ps(const RankContext& context, const PsOptions& options);

}  // namespace ringside::ps
