#include "ps/schemes/ps.h"

#include <algorithm>
#include <numeric>

#include "ps/protocol/parameter_server.h"
#include "ps/protocol/service.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/consistency_plan.h"
#include "ps/schemes/easgd.h"
#include "ps/schemes/ps_parts.h"
#include "ps/schemes/replica_scheme.h"
#include "ps/schemes/tickets.h"

namespace ringside::ps {
namespace {

/// Bulk synchronous: with what a worker begins a step, all workers' gradients of the step before
/// have been applied.
class Ps : public ReplicaScheme {
 public:
  Ps(const RankContext& context, const PsOptions& options)
      : ReplicaScheme(context),
        options_(options),
        barrier_(options.pull == Pull::barrier),
        in_rounds_(rounds_of(context.plan.optimizer, parameter_dtype(context.plan.train)) > 0) {}

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

/// Workers may hold different values: asp, ssp, and bsp with backup workers.
class FreePs : public Ps {
 public:
  using Ps::Ps;

  /// Workers begin together: one that starts sooner should not train alone for a while.
  void attach(Model& model) override {
    Ps::attach(model);
    client().sum({});
  }

  std::int64_t gradient_batch() const override {
    return ringside::ps::gradient_batch(context().plan, context().plan.world, rules_of(options()));
  }
  int own_replicas() const override { return 1; }

  void visit_parameters(const ParameterVisitor& visit) override {
    if (!finished_) {
      finished_ = true;
      client().finish();
      if (client().worker() == 0) link().pull(0);
      client().drain();
    }
    if (client().worker() == 0) link().visit(visit);
  }

 private:
  bool finished_ = false;
};

/// The run ends after a number of steps of any workers.
class Asp final : public FreePs {
 public:
  using FreePs::FreePs;

  void attach(Model& model) override {
    FreePs::attach(model);
    if (!options().equal_steps) tickets_.emplace(client());
  }
  std::optional<Turn> next_turn(std::int64_t done) override {
    if (!tickets_) return FreePs::next_turn(done);
    if (!tickets_->take()) return {};
    return Turn{.step = done, .micro_batches = context().plan.train.accumulation};
  }

 private:
  std::optional<Tickets> tickets_;
};

/// A worker whose gradients came too late goes on with the newest values, so it does fewer steps.
class BackupPs final : public FreePs {
 public:
  using FreePs::FreePs;

  std::optional<Turn> next_turn(std::int64_t done) override {
    number_ = link().newest_version();
    if (number_ >= context().plan.train.steps) return {};
    return Turn{.step = done, .micro_batches = context().plan.train.accumulation};
  }
  /// Waits within the step for all values, of which the newest one decides what comes next.
  bool step(const StepInfo& info) override {
    const bool finite = FreePs::step(info);
    client().drain();
    return finite;
  }

 private:
  void push(std::size_t unit, std::int64_t) override { link().push_pull(unit, number_); }

  std::int64_t number_ = 0;  // of the step's gradients: the newest version read of any range
};

}  // namespace

std::unique_ptr<SyncScheme> make_ps(const RankContext& context, const PsOptions& options) {
  if (promise_of(options) == Promise::same_run) return std::make_unique<Ps>(context, options);
  if (options.consistency == Consistency::asp) return std::make_unique<Asp>(context, options);
  if (options.consistency == Consistency::easgd) return make_easgd(context, options);
  if (options.consistency == Consistency::ssp) return std::make_unique<FreePs>(context, options);
  return std::make_unique<BackupPs>(context, options);
}

RankRecord serve_ps(const RankContext& context, const PsOptions& options, Model& model,
                    const Loader&) {
  const auto transport = context.links.transport<Transport>();
  const Connection connection = transport->listen(context, transport_options(context, options));
  ParameterServer server(model, chunks_of(model, context.plan.world, options), context.device,
                         server_config(context, connection.token, options));
  return serve(context, *connection.channel, server, model.parameter_count());
}

double ps_minimum_bytes(const StepShape& shape, const PsOptions& options) {
  const bool elastic = options.consistency == Consistency::easgd;
  const double parameters = elastic ? 4 * static_cast<double>(shape.parameters) /
                                          static_cast<double>(options.communication_period)
                                    : static_cast<double>(shape.parameter_bytes);
  const double n = shape.world, s = shape.servers;
  const auto r = static_cast<double>(shape.reductions);
  if (options.placement == Placement::dedicated) return parameters * std::max(r, n / s);
  if (options.placement == Placement::mixed) {
    const auto shares = shares_of_servers(options.placement, options.servers, shape.world);
    const auto all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    const double part = parameters / static_cast<double>(all);
    const double own = part * static_cast<double>(shares.front());
    const double dedicated = options.servers > 0 ? part * static_cast<double>(shares.back()) : 0;
    return std::max(n * dedicated, r * (parameters - own) + (n - 1) * own);
  }
  const double worker_and_server = parameters * (r * (s - 1) + (n - 1)) / s;
  return shape.servers < shape.world ? std::max(r * parameters, worker_and_server)
                                     : worker_and_server;
}

}  // namespace ringside::ps
