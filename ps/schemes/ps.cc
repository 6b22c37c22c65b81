#include "ps/schemes/ps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/service.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/consistency_plan.h"
#include "ps/schemes/easgd.h"
#include "ps/schemes/ps_parts.h"
#include "ps/schemes/replica_scheme.h"
#include "ps/schemes/tickets.h"

namespace ringside::ps {
namespace {

constexpr std::int64_t most_servers = 4096;
constexpr std::int64_t most_io_threads = 64;
constexpr double least_partition_mb = 1e-3, most_partition_mb = 1024;

std::int64_t partition_bytes(const PsOptions& options) {
  return std::llround(options.partition_mb * 1e6);
}

/// Bulk synchronous: with what a worker begins a step, all workers' gradients of the step before
/// have been applied.
class Ps : public ReplicaScheme {
 public:
  Ps(const RankContext& context, const PsOptions& options)
      : ReplicaScheme(context),
        options_(options),
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
    if (in_rounds_) link().pull(steps());
    return finite;
  }

 protected:
  /// If the optimizer updates only after sums over the whole model, this sends gradients without
  /// asking for new values: the requests would stay without a reply and fill the client's window.
  /// step() asks for these values after the sums.
  void push(std::size_t unit, std::int64_t step) override {
    if (in_rounds_)
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

std::vector<Chunk> chunks_of(const Model& model, int world, const PsOptions& options) {
  return partition(model, shares_of_servers(options.placement, options.servers, world),
                   partition_bytes(options));
}

TransportOptions transport_options(const RankContext& context, const PsOptions& options) {
  return {.transport = options.transport,
          .port = options.port,
          .port_option = "scheme.ps.port",
          .address = options.reach.address,
          .advertise = options.reach.advertise,
          .keys = options.reach.keys,
          .io_threads = options.io_threads,
          .max_frame_bytes = std::max(max_chunk_bytes, partition_bytes(options)),
          .timeout_s = context.plan.train.timeout_s};
}

Fields fields_of(PsOptions& options) {
  Fields fields = {
      {"backup_workers", &options.backup_workers,
       "bsp: an update takes the first gradients of all workers but this many; later ones are "
       "dropped"},
      {"communication_period", &options.communication_period,
       "easgd: steps of a worker from one exchange with the servers to the next; train.steps is a "
       "multiple of it"},
      {"consistency", &options.consistency,
       "bsp: every worker begins a step with values that all workers' gradients of the step before "
       "have updated; ssp: values may lack the updates of the last staleness_bound steps; asp: "
       "every gradient updates the values when it comes, and nobody waits; easgd: workers train "
       "replicas of their own, which values on the servers hold together (elastic averaging)"},
      {"delay_compensation", &options.delay_compensation,
       "asp: factor L with which a gradient g is corrected for the updates since its worker read: "
       "g + L * g * g * (values now - values read); 0: none"},
      {"equal_steps", &options.equal_steps,
       "asp, easgd: every worker does train.steps steps; else all together do train.steps times "
       "the number of workers"},
      {"io_threads", &options.io_threads,
       "tcp, ipc: threads of a rank that move bytes; more than one help a rank with several "
       "connections and cores to spare"},
      {"moving_rate", &options.moving_rate,
       "easgd: share of their distance by which a worker and the centre each move in an exchange; "
       "0: 0.9 divided by the number of workers"},
      {"partition_mb", &options.partition_mb,
       "units are pushed and pulled in parts of at most this size (MB, in fp32)"},
      {"placement", &options.placement,
       "dedicated: processes of their own; beside: within the workers' processes; mixed: one "
       "beside every worker and `servers` dedicated ones, which keep as much as makes all links "
       "equally busy"},
      {"port", &options.port,
       "tcp: port of the first server; the other servers take the next ports; 0: any free ports"},
      {"server_device", &options.server_device,
       "device of dedicated servers: same as the workers', or cpu"},
      {"servers", &options.servers,
       "servers that the parameters are spread over; with placement mixed the dedicated ones "
       "alone"},
      {"staleness_bound", &options.staleness_bound,
       "ssp: how many updates the values of a step may lack"},
      {"staleness_lr", &options.staleness_lr,
       "asp: inverse divides the learning rate of an update by 1 + the staleness of its gradient"},
      {"transport", &options.transport,
       "how messages travel between processes: shm (headers through shared memory, values read "
       "where they lie; ranks on CPUs), ipc, tcp (of the loopback interface, unless address says "
       "otherwise), or auto: shm where it can be, else ipc"}};
  return with_reach(options.reach, std::move(fields));
}

ConsistencyRules rules_of(const PsOptions& options) {
  const bool ssp = options.consistency == Consistency::ssp;
  return {options.consistency, ssp ? options.staleness_bound : 0,
          static_cast<int>(options.backup_workers)};
}

double moving_rate_of(const PsOptions& options, int workers) {
  return options.moving_rate > 0 ? options.moving_rate : 0.9 / workers;
}

Promise promise_of(const PsOptions& options) {
  const ConsistencyRules rules = rules_of(options);
  const bool synchronous = !is_asynchronous(rules.consistency) && rules.staleness_bound == 0 &&
                           rules.backup_workers == 0;
  return synchronous ? Promise::same_run : Promise::replayed;
}

void check(const PsOptions& options, const RunPlan& plan) {
  const bool mixed = options.placement == Placement::mixed;
  const int least = mixed ? 0 : 1;
  if (options.servers < least || options.servers > most_servers)
    throw Error("scheme.ps.servers = {} must lie between {} and {}", options.servers, least,
                most_servers);
  if (mixed && options.servers > plan.world)
    throw Error(
        "scheme.ps.servers = {}: with placement 'mixed' there is at most one dedicated server for "
        "each of {} worker{}; lower it, or choose 'dedicated'",
        options.servers, plan.world, plan.world == 1 ? "" : "s");
  if (!(options.partition_mb >= least_partition_mb && options.partition_mb <= most_partition_mb))
    throw Error("scheme.ps.partition_mb = {} must lie between {} and {}", options.partition_mb,
                least_partition_mb, most_partition_mb);
  if (options.io_threads < 1 || options.io_threads > most_io_threads)
    throw Error("scheme.ps.io_threads = {} must lie between 1 and {}", options.io_threads,
                most_io_threads);
  check_port("ps", options.transport, options.port, count_servers(options, plan.world).all);
  check_consistency(options, plan);
  check_reach("ps", options.transport, options.reach);
}

std::unique_ptr<SyncScheme> make_ps(const RankContext& context, const PsOptions& options) {
  if (promise_of(options) == Promise::same_run) return std::make_unique<Ps>(context, options);
  if (options.consistency == Consistency::asp) return std::make_unique<Asp>(context, options);
  if (options.consistency == Consistency::easgd) return make_easgd(context, options);
  if (options.consistency == Consistency::ssp) return std::make_unique<FreePs>(context, options);
  return std::make_unique<BackupPs>(context, options);
}

ServerConfig server_config(const RankContext& context, std::uint64_t token,
                           const PsOptions& options) {
  ServerConfig config = server_config(context, token);
  config.rules = rules_of(options);
  config.staleness_lr = options.staleness_lr;
  config.delay_compensation = options.delay_compensation;
  if (options.consistency != Consistency::easgd) return config;
  config.dtype = DType::f32;
  config.moving_rate = moving_rate_of(options, context.plan.world);
  config.period = options.communication_period;
  return config;
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
