#include "ps/ps.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/replica.h"
#include "ps/connect.h"
#include "ps/replica_link.h"
#include "ps/service.h"

namespace ringside::ps {
namespace {

ZmqOptions zmq_options(const RankContext& context, const PsOptions& options) {
  return {.transport = options.transport,
          .port = options.port,
          .port_option = "scheme.ps.port",
          .max_frame_bytes = max_chunk_bytes,
          .timeout_s = context.plan.train.timeout_s};
}

class Ps : public SyncScheme {
 public:
  Ps(const RankContext& context, const PsOptions& options)
      : SyncScheme(context), options_(options) {}

  void attach(Model& model) override {
    replica_.emplace(model, context());
    client_ = connect(context(), zmq_options(context(), options_));
    link_.emplace(model, *replica_, context().device, *client_, context().plan.servers);
  }

  void before_forward(std::size_t unit, const Pass&) override { link_->wait_for(unit); }
  void after_forward(std::size_t, const Pass&) override { client_->progress(); }

  void before_backward(std::size_t unit, const Pass& pass) override {
    client_->progress();
    replica_->before_backward(unit, pass);
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    replica_->after_backward(unit, pass);
    if (pass.last()) link_->push_pull(unit, pass.step);
    client_->progress();
  }

  /// The first unit's gradient goes last and its values are wanted first: nothing is lost by
  /// waiting here until all has been sent.
  void step(std::int64_t step) override {
    client_->flush();
    steps_ = step + 1;
  }

  double sum(double value) override { return client_->sum(value); }

  void visit_parameters(const ParameterVisitor& visit) override {
    client_->drain();
    if (client_->worker() != 0) return;
    link_->pull(steps_);
    client_->drain();
    link_->visit(visit);
  }

  Traffic traffic() const override { return client_ ? client_->traffic() : Traffic{}; }

 private:
  PsOptions options_;
  std::optional<Replica> replica_;
  std::unique_ptr<Client> client_;
  std::optional<ReplicaLink> link_;
  std::int64_t steps_ = 0;
};

}  // namespace

void check(const PsOptions& options) {
  if (options.servers < 1)
    throw Error("scheme.ps.servers = {}: there must be at least one", options.servers);
  check_placement("ps", options.placement);
  check_transport("ps", options.transport, options.port, options.servers);
  check_consistency(options.consistency);
}

std::unique_ptr<SyncScheme> make_ps(const RankContext& context, const PsOptions& options) {
  return std::make_unique<Ps>(context, options);
}

RankRecord serve_ps(const RankContext& context, const PsOptions& options, Model& model,
                    const Loader&) {
  const Listening listening = listen(context, zmq_options(context, options));
  Server server(model, partition(model, context.plan.servers), context.device,
                server_config(context, listening.token));
  return serve(context, *listening.channel, server, model.parameter_count());
}

double ps_minimum_bytes(const StepShape& shape, const PsOptions& options) {
  const auto parameters = static_cast<double>(shape.parameter_bytes);
  const double n = shape.world, s = shape.servers;
  if (options.placement == "dedicated") return parameters * std::max(1.0, n / s);
  const double worker_and_server = parameters * ((s - 1) + (n - 1)) / s;
  return shape.servers < shape.world ? std::max(parameters, worker_and_server) : worker_and_server;
}

}  // namespace ringside::ps
