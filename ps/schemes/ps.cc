#include "ps/schemes/ps.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/service.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/replica_scheme.h"

namespace ringside::ps {
namespace {

constexpr std::int64_t most_servers = 4096;

TransportOptions transport_options(const RankContext& context, const PsOptions& options) {
  return {.transport = options.transport,
          .port = options.port,
          .port_option = "scheme.ps.port",
          .address = options.reach.address,
          .advertise = options.reach.advertise,
          .keys = options.reach.keys,
          .max_frame_bytes = max_chunk_bytes,
          .timeout_s = context.plan.train.timeout_s};
}

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

 private:
  /// If the optimizer updates only after sums over the whole model, this sends gradients without
  /// asking for new values: the requests would stay without a reply and fill the client's window.
  /// step() asks for these values after the sums.
  void push(std::size_t unit, std::int64_t step) override {
    if (in_rounds_)
      link().push(unit, step);
    else
      link().push_pull(unit, step);
  }

  TransportOptions transport_options(const Model&) const override {
    return ringside::ps::transport_options(context(), options_);
  }

  PsOptions options_;
  bool in_rounds_;  // the optimizer needs sums over the model before it updates
};

}  // namespace

Fields fields_of(PsOptions& options) {
  Fields fields = {
      {"consistency", &options.consistency,
       "bsp: every worker begins a step with values that all workers' gradients of the step before "
       "have updated"},
      {"placement", &options.placement,
       "dedicated: processes of their own; beside: within the workers' processes"},
      {"port", &options.port,
       "tcp: port of the first server; the other servers take the next ports; 0: any free ports"},
      {"server_device", &options.server_device,
       "device of dedicated servers: same as the workers', or cpu"},
      {"servers", &options.servers, "servers that the parameters are spread over"},
      {"transport", &options.transport,
       "how messages travel between processes: ipc, or tcp (of the loopback interface, unless "
       "address says otherwise)"}};
  return with_reach(options.reach, std::move(fields));
}

void check(const PsOptions& options) {
  if (options.servers < 1 || options.servers > most_servers)
    throw Error("scheme.ps.servers = {} must lie between 1 and {}", options.servers, most_servers);
  check_port("ps", options.transport, options.port, options.servers);
  check_reach("ps", options.transport, options.reach);
}

std::unique_ptr<SyncScheme> make_ps(const RankContext& context, const PsOptions& options) {
  return std::make_unique<Ps>(context, options);
}

RankRecord serve_ps(const RankContext& context, const PsOptions& options, Model& model,
                    const Loader&) {
  const auto transport = context.links.transport<Transport>();
  const Connection connection = transport->listen(context, transport_options(context, options));
  Server server(model, partition(model, context.plan.servers), context.device,
                server_config(context, connection.token));
  return serve(context, *connection.channel, server, model.parameter_count());
}

double ps_minimum_bytes(const StepShape& shape, const PsOptions& options) {
  const auto parameters = static_cast<double>(shape.parameter_bytes);
  const double n = shape.world, s = shape.servers;
  const auto r = static_cast<double>(shape.reductions);
  if (options.placement == Placement::dedicated) return parameters * std::max(r, n / s);
  const double worker_and_server = parameters * (r * (s - 1) + (n - 1)) / s;
  return shape.servers < shape.world ? std::max(r * parameters, worker_and_server)
                                     : worker_and_server;
}

}  // namespace ringside::ps
