#include "ps/schemes/dp.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/plan/slices.h"
#include "ps/protocol/server_loop.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/master.h"
#include "ps/schemes/replica_scheme.h"
#include "ps/schemes/server_scheme.h"

namespace ringside::ps {
namespace {

/// The largest frame is a chunk, or the inputs or the logits of a micro-batch.
TransportOptions dp_transport_options(const RankContext& context, const DpOptions& options,
                                      const Model& model) {
  const TrainConfig& train = context.plan.train;
  const std::int64_t samples = largest_micro_batch(context.plan);
  const std::int64_t logits =
      model.logits_per_sample() * static_cast<std::int64_t>(size_of(parameter_dtype(train)));
  return {
      .transport = options.transport,
      .port = options.port,
      .port_option = "scheme.dp.port",
      .address = options.reach.address,
      .advertise = options.reach.advertise,
      .keys = options.reach.keys,
      .max_frame_bytes = std::max(max_chunk_bytes, samples * std::max(model.input_bytes(), logits)),
      .timeout_s = train.timeout_s};
}

class Dp : public ReplicaScheme {
 public:
  Dp(const RankContext& context, const DpOptions& options)
      : ReplicaScheme(context), options_(options) {}

  Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass& pass) override {
    if (!pass.training) return SyncScheme::fetch(slice, loader, pass);
    Message request = about(pass, Kind::inputs);
    request.header.begin = slice.first;
    request.header.count = slice.count;
    const Message reply = client().call(master, std::move(request), "inputs");
    if (reply.frames.size() != 1) throw Error("the master sent no inputs");
    return {reply.frames[0], {}};
  }

  void before_forward(std::size_t unit, const Pass&) override {
    ask_for_values();
    link().wait_for(unit);
  }

  Loss loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
            const Pass& pass) override {
    if (!pass.training) return SyncScheme::loss(logits, batch, terms, pass);
    Message request = about(pass, Kind::loss);
    request.header.scalar = terms.gradient_scale;
    request.frames = {logits};
    const Message reply = client().call(master, std::move(request), "loss");
    if (reply.frames.size() != 1 || reply.frames[0].shape() != logits.shape() ||
        reply.frames[0].dtype() != logits.dtype())
      throw Error("the master sent no gradient of the {} logits", logits.shape().text());
    // A master within this process has written the gradient into `logits` itself.
    if (reply.frames[0].buffer() != logits.buffer())
      context().device.kernels().copy({.in = reply.frames[0], .out = logits});
    return {.known = {.loss = reply.header.scalar}, .gradient = logits};
  }

  bool step(const StepInfo& info) override {
    current_ = false;
    return ReplicaScheme::step(info);
  }

  /// A push has no reply, but the values that come after the push show that the master has handled
  /// it.
  void drain() override {
    ask_for_values();
    ReplicaScheme::drain();
  }
  void restored(std::int64_t skipped) override {
    ReplicaScheme::restored(skipped);
    current_ = true;
  }

 private:
  static constexpr int master = 0;

  TransportOptions transport_options(const Model& model) const override {
    return dp_transport_options(context(), options_, model);
  }

  void push(std::size_t unit, std::int64_t step) override { link().push(unit, step); }

  static Message about(const Pass& pass, Kind kind) {
    Message message;
    message.header.kind = kind;
    message.header.step = pass.step;
    message.header.micro_batch = pass.micro_batch;
    return message;
  }

  void ask_for_values() {
    if (!current_) link().pull(steps());
    current_ = true;
  }

  DpOptions options_;
  bool current_ = false;  // the replica has, or has asked for, the newest values
};

}  // namespace

Fields fields_of(DpOptions& options) {
  Fields fields = {
      {"placement", &options.placement,
       "the master: colocated with worker 0, or dedicated (a process of its own)"},
      {"port", &options.port, "tcp: port of the master; 0: any free port", Range::not_negative},
      {"server_device", &options.server_device,
       "device of a dedicated master: same as the workers', or cpu"},
      {"transport", &options.transport,
       "how messages travel between processes: shm (headers through shared memory, "
       "values read where they lie; ranks on CPUs), ipc, tcp (of the loopback "
       "interface, unless address says otherwise), or auto: shm where it can be, else "
       "ipc"}};
  return with_reach(options.reach, std::move(fields));
}

void check(const DpOptions& options, const RunPlan&) {
  if (options.placement == Placement::mixed)
    throw Error(
        "scheme.dp.placement = 'mixed': there is one master; choose 'dedicated' or 'colocated'");
  check_port("dp", options.transport, options.port, 1);
  check_reach("dp", options.transport, options.reach);
}

std::unique_ptr<SyncScheme> make_dp(const RankContext& context, const DpOptions& options) {
  return std::make_unique<Dp>(context, options);
}

RankRecord serve_dp(const RankContext& context, const DpOptions& options, Model& model,
                    const Loader& loader) {
  const auto transport = context.links.transport<Transport>();
  const Connection connection =
      transport->listen(context, dp_transport_options(context, options, model));
  const RunPlan& plan = context.plan;
  Master master(model, partition(model, plan.servers), context.device,
                server_config(context, connection.token), loader, plan);
  return serve(context, *connection.channel, master, model.parameter_count());
}

double dp_minimum_bytes(const StepShape& shape, const DpOptions& options) {
  const double n = shape.world;
  const auto parameters = static_cast<double>(shape.parameter_bytes);
  const double sample = static_cast<double>(shape.input_bytes + shape.logit_bytes);
  const auto worker = [&](std::int64_t samples) {
    return static_cast<double>(shape.reductions) * parameters +
           static_cast<double>(samples * shape.logit_bytes);
  };
  const double other = worker(shape.other_samples);
  if (options.placement == Placement::dedicated)
    return std::max({n * parameters + static_cast<double>(shape.samples) * sample,
                     worker(shape.first_samples), other});
  const auto away = static_cast<double>(shape.samples - shape.first_samples);
  return n == 1 ? 0 : std::max((n - 1) * parameters + away * sample, other);
}

SchemeInfo dp_info() {
  auto r = server_scheme<DpOptions>("dp", "classic DataParallel: one master scatters and gathers",
                                    make_dp, serve_dp, dp_minimum_bytes);
  r.topology = SchemeTopology::master;
  r.resumes = resumes_the_same_run(r.promise);
  return r;
}

}  // namespace ringside::ps
