#include "ps/schemes/fedavg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/num/random.h"
#include "core/optim/optimizers.h"
#include "core/plan/slices.h"
#include "core/scheme/parameter_map.h"
#include "ps/protocol/parameter_server.h"
#include "ps/protocol/server_loop.h"
#include "ps/schemes/centred.h"
#include "ps/schemes/server_scheme.h"
#include "ps/schemes/worker_course.h"

namespace ringside::ps {
namespace {

int clients_in_round(const FedAvgOptions& options, int workers) {
  return std::max(1, static_cast<int>(std::lround(options.client_fraction * workers)));
}

/// The rounds of a run, and who takes part in them.
class Rounds {
 public:
  Rounds(const FedAvgOptions& options, const RunPlan& plan)
      : options_(options),
        train_(plan.train),
        workers_(plan.defines > 0 ? plan.defines : plan.world) {}

  std::int64_t of(std::int64_t step) const { return step / options_.sync_every; }
  bool begins(std::int64_t step) const { return step % options_.sync_every == 0; }
  bool ends(std::int64_t step) const { return begins(step + 1) || step + 1 == train_.steps; }
  std::vector<int> clients(std::int64_t round) const {
    return clients_of_round(options_, train_.seed, workers_, round);
  }
  bool has(std::int64_t round, int client) const {
    const std::vector<int> clients = this->clients(round);
    return std::ranges::find(clients, client) != clients.end();
  }
  /// The number of samples of a client in a step, and its share of those of a round's clients.
  std::int64_t samples(int client) const {
    if (train_.weights.empty()) return train_.global_batch / workers_;
    return train_.weights[static_cast<std::size_t>(client)] * train_.global_batch /
           std::accumulate(train_.weights.begin(), train_.weights.end(), std::int64_t{0});
  }
  float share(std::int64_t round, int client) const {
    std::int64_t all = 0;
    for (const int one : clients(round)) all += samples(one);
    return static_cast<float>(static_cast<double>(samples(client)) / static_cast<double>(all));
  }
  /// The steps of all rounds that are over after a step.
  std::int64_t whole_after(std::int64_t step) const {
    return ends(step) ? step + 1 : of(step) * options_.sync_every;
  }

 private:
  FedAvgOptions options_;
  TrainConfig train_;
  int workers_;
};

/// Updates are rounds. A client that takes part in none of the next rounds waits for the values of
/// its next one, or pushes nothing more.
class RoundPolicy final : public Policy {
 public:
  RoundPolicy(std::int64_t sync_every, int clients) : sync_every_(sync_every), clients_(clients) {}

  std::int64_t most_ahead() const override { return std::numeric_limits<std::int64_t>::max(); }
  bool may_skip() const override { return true; }
  std::optional<std::int64_t> update_of(std::int64_t step, std::int64_t version) const override {
    const std::int64_t round = step / sync_every_;
    if (round < version) return {};
    return round;
  }
  std::int64_t updates_after(std::int64_t steps, int) const override { return steps / sync_every_; }
  int gradients(int) const override { return clients_; }
  bool may_read(std::int64_t steps, std::int64_t version) const override {
    return version >= (steps + sync_every_ - 1) / sync_every_;
  }
  /// Clients that read the values of a round push in it, or read before those who do (see
  /// FedAvgClient::read_for_evaluation()).
  bool values_rest() const override { return true; }

 private:
  std::int64_t sync_every_;
  int clients_;
};

class FedAvgClient final : public DifferenceWorker {
 public:
  FedAvgClient(const RankContext& context, const FedAvgOptions& options)
      : DifferenceWorker(context, local_transport(context, options.servers)),
        rounds_(options, context.plan),
        worker_(context.self().worker) {}

  void attach(Model& model) override {
    DifferenceWorker::attach(model);
    meetings_.emplace(context(), client());
  }

  /// At a meeting a client has done all steps before, as far as it takes part in them.
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    const TrainConfig& train = context().plan.train;
    forget_centre();
    if (!std::exchange(begun_, true)) step_ = done;
    const auto trains = [&](std::int64_t step) { return rounds_.has(rounds_.of(step), worker_); };
    std::int64_t next = step_;
    while (next < train.steps && !trains(next) && !evaluates_after(train, next)) ++next;
    if (auto saves = meetings_->before_step(next)) {
      step_ = saves->step = saves->saves_after;
      return saves;
    }
    if (meetings_->is_over()) return {};
    step_ = next;
    if (next == train.steps) return {};
    if (trains(next) && rounds_.begins(next) && next > 0) pull(next);
    ++step_;
    return StepAssignment{
        .step = next, .micro_batches = train.accumulation, .trains = trains(next)};
  }

  std::int64_t gradient_batch() const override { return rounds_.samples(worker_); }

  /// All workers show the servers' values. Those that would take part in the next round read them
  /// as they would then, so that the servers' bytes are those of the run's rounds.
  void visit_parameters(const ParameterVisitor& visitor) override {
    const std::int64_t steps = rounds_.whole_after(step_ - 1);  // a run may be stopped in a round
    const bool next = rounds_.has(rounds_.of(steps - 1) + 1, worker_);
    read_centre(next ? Kind::pull : Kind::peek, steps);
    show_centre(visitor);
  }

 private:
  std::vector<Chunk> make_chunks(const Model& model) const override {
    return chunks_of(model, context().plan);
  }

  /// All workers read the values of the rounds that are over, before any goes on.
  void read_for_evaluation(const Pass& pass) override {
    read_centre(Kind::peek, rounds_.whole_after(pass.step));
    client().sum({});
  }

  void exchange(const StepInfo& info) override {
    if (rounds_.ends(info.step))
      push(Kind::push, info.step, rounds_.share(rounds_.of(info.step), worker_));
  }

  Rounds rounds_;
  int worker_;
  std::optional<WorkerMeetings> meetings_;
  bool begun_ = false;
  std::int64_t step_ = 0;
};

/// The clients of every round one after the other.
class FedAvgDefinition final : public Centred {
 public:
  FedAvgDefinition(const RankContext& context, const FedAvgOptions& options)
      : Centred(context, context.plan.defines),
        options_(options),
        rounds_(options, context.plan),
        clients_(rounds_.clients(0)) {}

  void attach(Model& model) override {
    Centred::attach(model);
    centre_ = initial_centre(MemoryKind::parameter);
    evaluated_ = parameters_like_replicas(MemoryKind::workspace);
    sum_ = context().device.tensor(centre_.shape(), MemoryKind::workspace);
    difference_ = context().device.tensor(centre_.shape(), MemoryKind::workspace);
    optimizer_ = make_optimizer(outer_sgd(options_.outer_lr, options_.outer_momentum),
                                {context().plan.train.steps, own_replicas()}, context().device,
                                centre_, parameter_map(model));
  }

  /// In every step each client of the round; then all workers evaluate.
  std::optional<StepAssignment> next_assignment(std::int64_t) override {
    const TrainConfig& train = context().plan.train;
    const std::int64_t each = train.accumulation / own_replicas();
    if (next_ == clients_.size()) {
      next_ = 0;
      const std::int64_t done = step_++;
      if (evaluates_after(train, done))
        return StepAssignment{done, 0, train.accumulation, false, true};
    }
    if (step_ == train.steps) return {};
    if (next_ == 0) clients_ = rounds_.clients(rounds_.of(step_));
    computing_ = clients_[next_++];
    if (rounds_.begins(step_)) set_values(computing_, 0, centre_);
    return StepAssignment{step_, computing_ * each, each, true, false};
  }
  Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass&) override {
    return loader.read(slice);
  }

  void before_forward(std::size_t unit, const Pass& pass) override {
    if (pass.training) return Centred::before_forward(unit, pass);
    if (unit == 0) kernels().cast({.in = centre_, .out = evaluated_});
    bind(unit, evaluated_);
  }
  Loss loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
            const Pass& pass) override {
    LossTerms own = terms;
    own.gradient_batch = rounds_.samples(computing_);
    return Centred::loss(logits, batch, own, pass);
  }

  bool step(const StepInfo& info) override {
    update(computing_, info);
    if (!rounds_.ends(info.step)) return true;
    const std::int64_t round = rounds_.of(info.step);
    make_difference(centre_, values(computing_), rounds_.share(round, computing_), difference_);
    if (computing_ == clients_.front())
      kernels().copy({.in = difference_, .out = sum_});
    else
      kernels().add({.in = difference_, .out = sum_});
    if (computing_ == clients_.back()) optimizer_->update({0, centre_, sum_}, {.step = round});
    return true;
  }

  void visit_parameters(const ParameterVisitor& visitor) override {
    kernels().cast({.in = centre_, .out = evaluated_});
    visit(evaluated_, visitor);
  }

 private:
  FedAvgOptions options_;
  Rounds rounds_;
  Tensor centre_, evaluated_, sum_, difference_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<int> clients_;  // of the round
  std::size_t next_ = 0;      // of these
  std::int64_t step_ = 0;
  int computing_ = 0;
};

std::unique_ptr<SyncScheme> make_fedavg(const RankContext& context, const FedAvgOptions& options) {
  return std::make_unique<FedAvgClient>(context, options);
}

std::unique_ptr<SyncScheme> define_fedavg(const RankContext& context,
                                          const FedAvgOptions& options) {
  return std::make_unique<FedAvgDefinition>(context, options);
}

RankRecord serve_fedavg(const RankContext& context, const FedAvgOptions& options, Model& model,
                        const Loader&) {
  const auto transport = context.links.transport<Transport>();
  const Connection connection =
      transport->listen(context, local_transport(context, options.servers));
  ServerConfig config = local_server_config(context, connection.token,
                                            outer_sgd(options.outer_lr, options.outer_momentum));
  config.policy = std::make_shared<RoundPolicy>(options.sync_every,
                                                clients_in_round(options, context.plan.world));
  ParameterServer server(model, chunks_of(model, context.plan), context.device, config);
  return serve(context, *connection.channel, server, model.parameter_count());
}

double fedavg_minimum_bytes(const StepShape& shape, const FedAvgOptions& options) {
  return exchange_bytes(shape, options.servers, clients_in_round(options, shape.world),
                        options.sync_every);
}

}  // namespace

void check(const FedAvgOptions& options, const RunPlan& plan) {
  check_local_servers(options.servers, plan);
  if (options.outer_momentum >= 1)
    throw Error("scheme.fedavg.outer_momentum = {} must be less than 1", options.outer_momentum);
  if (plan.train.shares != Shares::equal && plan.data.kind == "synthetic-lengths")
    throw Error(
        "train.shares: clients of scheme fedavg count samples, and those of data "
        "'synthetic-lengths' "
        "differ in length; leave train.shares at 'equal'");
}

Fields fields_of(FedAvgOptions& options) {
  return with_servers(
      options.servers,
      {{"client_fraction", &options.client_fraction,
        "share of the workers that take part in a round, at least one worker (C)", Range::share},
       {"outer_lr", &options.outer_lr,
        "learning rate by which servers take the mean difference; 1: they take the mean of values",
        Range::positive},
       {"outer_momentum", &options.outer_momentum, "Nesterov's momentum of the servers; 0: none",
        Range::not_negative},
       {"sync_every", &options.sync_every, "local steps of a round (E)", Range::positive}});
}

std::vector<int> clients_of_round(const FedAvgOptions& options, std::int64_t seed, int workers,
                                  std::int64_t round) {
  std::vector<int> all(static_cast<std::size_t>(workers));
  std::iota(all.begin(), all.end(), 0);
  const auto drawn = static_cast<std::size_t>(clients_in_round(options, workers));
  for (std::size_t i = 0; i < drawn; ++i) {
    const std::uint64_t at = static_cast<std::uint64_t>(round) * all.size() + i;
    const std::uint64_t bits =
        random_bits(static_cast<std::uint64_t>(seed), Stream::clients, at) >> 1;
    std::swap(all[i], all[i + bits % (all.size() - i)]);
  }
  all.resize(drawn);
  std::ranges::sort(all);
  return all;
}

SchemeInfo fedavg_info() {
  using Own = FedAvgOptions;
  auto r =
      server_scheme<Own>("fedavg", "federated averaging: rounds of local steps of some clients",
                         make_fedavg, serve_fedavg, fedavg_minimum_bytes);
  r.promise = [](const Options&) { return Promise::own_algorithm; };
  r.define = with_own<Own>(define_fedavg);
  r.resumes = [](const Options&) { return true; };
  r.tried = {{"of_half", Own{.sync_every = 1, .client_fraction = 0.5}},
             {"with_momentum", Own{.sync_every = 2, .outer_lr = 0.7, .outer_momentum = 0.9}}};
  const std::string every_step = "scheme.fedavg.sync_every=1", two = "scheme.fedavg.sync_every=2";
  r.identities = {{{every_step, "optimizer.kind=sgd"}, "single"},
                  {{two, "scheme.local_sgd.sync_every=2"}, "local_sgd"},
                  {{two, "scheme.fedavg.outer_lr=0.7", "scheme.fedavg.outer_momentum=0.9",
                    "scheme.diloco.sync_every=2"},
                   "diloco"}};
  return r;
}

}  // namespace ringside::ps
