#include "ps/schemes/adpsgd.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/num/random.h"
#include "core/plan/places.h"
#include "core/scheme/local_replicas.h"
#include "ps/protocol/partition.h"
#include "ps/protocol/server_loop.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/pair_server.h"
#include "ps/schemes/server_scheme.h"
#include "ps/schemes/worker_course.h"

namespace ringside::ps {
namespace {

class Adpsgd final : public LocalReplicas {
 public:
  Adpsgd(const RankContext& context, const AdpsgdOptions& options)
      : LocalReplicas(context, 1),
        options_(options),
        pairing_(options, context.plan.world, context.plan.train.seed),
        own_server_(pairing_.server_of(context.self().worker)),
        transport_(context.links.transport<Transport>()) {}

  void attach(Model& model) override {
    LocalReplicas::attach(model);
    const Shape shape{model.parameter_count()};
    sent_ = context().device.tensor(shape, MemoryKind::communication);
    received_ = context().device.tensor(shape, MemoryKind::workspace);
    kernels().copy({.in = values(0), .out = received_});
    client_ = connect(context(), *transport_, pair_transport(context(), options_, model));
    client_->sum({});  // workers begin together
    meetings_.emplace(context(), *client_);
  }

  bool says_when_to_save() const override { return true; }
  void keep_in_touch() override { client_->progress(); }
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    if (auto saves = meetings_->before_step(done)) return saves;
    if (meetings_->is_over()) return {};
    return LocalReplicas::next_assignment(done);
  }
  /// Between two steps a passive worker's replica is what it has received.
  void restored(std::int64_t skipped) override {
    LocalReplicas::restored(skipped);
    kernels().copy({.in = values(0), .out = received_});
  }

  void before_forward(std::size_t unit, const Pass& pass) override {
    LocalReplicas::before_forward(unit, pass);
    if (!is_passive() && pass.training && unit == 0 && pass.micro_batch == 0) meet(pass.step);
  }
  void after_forward(std::size_t, const Pass&) override { client_->progress(); }
  void after_backward(std::size_t unit, const Pass& pass) override {
    LocalReplicas::after_backward(unit, pass);
    client_->progress();
  }
  void drain() override { client_->drain(); }

  /// The replica of a passive worker is its server's once no other worker averages any more.
  void visit_parameters(const ParameterVisitor& visit) override {
    if (!std::exchange(finished_, true)) {
      client_->finish();
      if (is_passive()) {
        ask(own_server_, Kind::pull, context().plan.train.steps);
        take_received();
      }
    }
    LocalReplicas::visit_parameters(visit);
  }
  Traffic traffic() const override { return client_ ? client_->traffic() : Traffic{}; }

 private:
  bool is_passive() const { return own_server_ >= 0; }
  const Kernels& kernels() const { return context().device.kernels(); }

  /// An active worker sends its replica.
  void meet(std::int64_t step) {
    {
      const auto span = context().timeline.scope(Activity::encoding, "copy the replica");
      kernels().copy({.in = values(0), .out = sent_});
    }
    ask(pairing_.met_by(context().self().worker, step), Kind::push_pull, step);
  }

  void synchronise(const StepInfo& info) override {
    if (is_passive()) {
      subtract(values(0), received_, sent_);
      ask(own_server_, Kind::push_pull, info.step);
      return take_received();
    }
    wait();
    const auto span = context().timeline.scope(Activity::encoding, "add the update to the mean");
    subtract(values(0), sent_, values(0));
    kernels().add({.in = received_, .out = values(0)});
    round_parameters(0);
  }

  /// out = a - b; `out` may be `a`.
  void subtract(const Tensor& a, const Tensor& b, const Tensor& out) const {
    if (!out.begins_at(a)) kernels().copy({.in = a, .out = out});
    kernels().blend({.in = b, .out = out, .in_scale = -1, .out_scale = 1});
  }

  /// The replica becomes what has been received.
  void take_received() {
    wait();
    const auto span = context().timeline.scope(Activity::encoding, "take the replica");
    kernels().copy({.in = received_, .out = values(0)});
    round_parameters(0);
  }

  void ask(int server, Kind kind, std::int64_t step) {
    Message request;
    request.header.kind = kind;
    request.header.step = step;
    request.header.count = sent_.count();
    if (kind == Kind::push_pull) request.frames.push_back(sent_);
    waits_ = true;
    client_->ask(server, std::move(request), "replica", [this, server](const Message& reply) {
      if (reply.frames.size() != 1 || reply.frames[0].dtype() != DType::f32 ||
          reply.frames[0].count() != received_.count())
        throw Error("server {} sent no replica of {} fp32 elements", server, received_.count());
      kernels().copy({.in = reply.frames[0], .out = received_});
      waits_ = false;
    });
  }
  void wait() {
    client_->wait("a replica", [this] { return !waits_; });
  }

  AdpsgdOptions options_;
  Pairing pairing_;
  int own_server_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Client> client_;
  std::optional<WorkerMeetings> meetings_;
  Tensor sent_;      // an active worker's replica before the step, or a passive one's update
  Tensor received_;  // a mean, or the replica with which a passive worker computes
  bool waits_ = false, finished_ = false;
};

/// An active worker sends its replica; the servers send means to as many workers as are active.
double adpsgd_minimum_bytes(const StepShape& shape, const AdpsgdOptions&) {
  if (shape.world == 1) return 0;
  const double passive = shape.servers, active = shape.world - passive;
  return 4 * static_cast<double>(shape.parameters) * std::max(1.0, active / passive);
}

}  // namespace

Pairing::Pairing(const AdpsgdOptions& options, int world, std::int64_t seed)
    : neighbours_(options.neighbours),
      world_(world),
      seed_(static_cast<std::uint64_t>(seed)),
      passive_(workers_with_servers(std::max(1, world / 2), world, 1)) {}

int Pairing::server_of(int worker) const {
  const auto found = std::find(passive_.begin(), passive_.end(), worker);
  return found == passive_.end() ? -1 : static_cast<int>(found - passive_.begin());
}

int Pairing::met_by(int worker, std::int64_t step) const {
  std::vector<int> servers;
  if (neighbours_ == Neighbours::all)
    for (std::size_t s = 0; s < passive_.size(); ++s) servers.push_back(static_cast<int>(s));
  else
    for (const int other : {(worker + world_ - 1) % world_, (worker + 1) % world_})
      if (const int server = server_of(other); server >= 0) servers.push_back(server);
  constexpr std::uint32_t pairs = 0x70616972U;  // no other stream of random numbers has this key
  const auto at = static_cast<std::uint64_t>(step);
  const std::uint64_t drawn = philox(
      {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32),
       static_cast<std::uint32_t>(worker), 0},
      {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32) ^ pairs})[0];
  return servers[static_cast<std::size_t>(drawn * servers.size() >> 32)];
}

ServerCounts count_servers(const AdpsgdOptions& options, int world) {
  const auto passive = static_cast<std::int64_t>(Pairing(options, world, 0).passive().size());
  return {passive, passive};
}

TransportOptions pair_transport(const RankContext& context, const AdpsgdOptions& options,
                                const Model& model) {
  return {.transport = options.transport,
          .port = options.port,
          .port_option = "scheme.adpsgd.port",
          .address = options.reach.address,
          .advertise = options.reach.advertise,
          .keys = options.reach.keys,
          .max_frame_bytes = std::max(max_chunk_bytes, 4 * model.parameter_count()),
          .timeout_s = context.plan.train.timeout_s};
}

Fields fields_of(AdpsgdOptions& options) {
  Fields fields = {
      {"neighbours", &options.neighbours,
       "the passive workers with whom an active one averages, one of them in each step, drawn at "
       "random: ring (the worker before and the one after) or all"},
      {"port", &options.port, "tcp: port of the first server; 0: any free ports",
       Range::not_negative},
      {"transport", &options.transport,
       "how messages travel between processes: shm (headers through shared memory, values read "
       "where they lie; ranks on CPUs), ipc, tcp (of the loopback interface, unless address says "
       "otherwise), or auto: shm where it can be, else ipc"}};
  return with_reach(options.reach, std::move(fields));
}

void check(const AdpsgdOptions& options, const RunPlan& plan) {
  check_port("adpsgd", options.transport, options.port, count_servers(options, plan.world).all);
  check_reach("adpsgd", options.transport, options.reach);
}

std::unique_ptr<SyncScheme> make_adpsgd(const RankContext& context, const AdpsgdOptions& options) {
  return std::make_unique<Adpsgd>(context, options);
}

RankRecord serve_adpsgd(const RankContext& context, const AdpsgdOptions& options, Model& model,
                        const Loader&) {
  const auto transport = context.links.transport<Transport>();
  const Connection connection = transport->listen(context, pair_transport(context, options, model));
  PairServer server(model, context.device, server_config(context, connection.token),
                    context.self().worker);
  return serve(context, *connection.channel, server, model.parameter_count());
}

SchemeInfo adpsgd_info() {
  auto r = server_scheme<AdpsgdOptions>(
      "adpsgd", "AD-PSGD: replicas are averaged in pairs, and nobody waits for a step of others",
      make_adpsgd, serve_adpsgd, adpsgd_minimum_bytes);
  r.promise = [](const Options&) { return Promise::replayed; };
  r.own_replicas = true;
  r.resumes = [](const Options&) { return true; };
  r.define = with_own<AdpsgdOptions>(define_adpsgd);
  return r;
}

}  // namespace ringside::ps
