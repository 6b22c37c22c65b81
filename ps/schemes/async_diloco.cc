#include "ps/schemes/async_diloco.h"

#include <memory>
#include <utility>

#include "core/base/error.h"
#include "ps/schemes/server_scheme.h"

namespace ringside::ps {
namespace {

std::int64_t delay_of(const AsyncDilocoOptions& options, int workers) {
  return options.momentum_delay > 0 ? options.momentum_delay : workers;
}

/// Delayed Nesterov on a server's flat range. The pushes of a range are counted by StepInfo::step.
class DelayedNesterov final : public Optimizer {
 public:
  DelayedNesterov(const AsyncDilocoOptions& options, int workers, Device& device,
                  const Tensor& parameters)
      : device_(device),
        delay_(delay_of(options, workers)),
        lr_(static_cast<float>(options.outer.outer_lr)),
        momentum_(static_cast<float>(options.outer.outer_momentum)),
        activation_(options.momentum_activation),
        velocity_(device.tensor(parameters.shape(), MemoryKind::optimizer)),
        sum_(device.tensor(parameters.shape(), MemoryKind::optimizer)) {
    for (const Tensor& state : {velocity_, sum_}) device.kernels().fill({.out = state});
  }

  int rounds() const override { return 0; }
  std::size_t sums(int) const override { return 0; }
  std::vector<double> measure(int, const ParameterRange&, const StepInfo&) override { return {}; }
  bool settle(int, std::span<const double>, const StepInfo&) override { return true; }

  void update(const ParameterRange& range, const StepInfo& info) override {
    const std::int64_t count = range.parameters.count();
    const Tensor velocity = velocity_.range(range.begin, count);
    const Tensor sum = sum_.range(range.begin, count);
    const float share = 1 / static_cast<float>(delay_);
    const bool refreshes = (info.step + 1) % delay_ == 0;
    add(sum, 1, range.gradients, info.step % delay_ == 0 ? 0.0F : 1.0F);
    if (refreshes) add(velocity, share, sum, momentum_);
    add(range.parameters, -lr_ * share, range.gradients, 1);
    const double c = activation_;
    const auto applied =
        static_cast<float>(refreshes ? 1 - c * static_cast<double>(delay_) + c : c);
    if (applied != 0) add(range.parameters, -lr_ * applied * momentum_, velocity, 1);
  }

  std::vector<OptimizerState> state() const override {
    return {{"velocity", velocity_}, {"pushes", sum_}};
  }
  void restored(std::span<const ParameterRange>, std::int64_t) override {}

 private:
  /// to = factor * in + kept * to
  void add(const Tensor& to, float factor, const Tensor& in, float kept) const {
    device_.kernels().blend({.in = in, .out = to, .in_scale = factor, .out_scale = kept});
  }

  Device& device_;
  std::int64_t delay_;
  float lr_, momentum_;
  double activation_;
  Tensor velocity_, sum_;  // sum_: of the pushes since the velocity was refreshed
};

RankRecord serve_async_diloco(const RankContext& context, const AsyncDilocoOptions& options,
                              Model& model, const Loader&) {
  return serve_outer(context, options.servers, model, [&](std::uint64_t token) {
    ServerConfig config = outer_server_config(context, token, options.outer);
    config.policy = std::make_shared<LocalAsp>();
    config.make_optimizer = [options, workers = context.plan.world](Device& device,
                                                                    const Tensor& parameters) {
      return make_delayed_nesterov(options, workers, device, parameters);
    };
    return config;
  });
}

std::unique_ptr<SyncScheme> make_async_diloco(const RankContext& context,
                                              const AsyncDilocoOptions& options) {
  return make_outer_worker(context, options.outer, options.servers, {});
}

/// Algorithm 3 as the paper writes it, push by push.
class AsyncDilocoReplay final : public OuterReplay {
 public:
  AsyncDilocoReplay(const RankContext& context, const AsyncDilocoOptions& options)
      : OuterReplay(context, options.outer), options_(options), pushes_(ranges()) {}

  void attach(Model& model) override {
    OuterReplay::attach(model);
    for (Tensor* state : {&momentum_, &delta_}) {
      *state = initial_centre(MemoryKind::workspace);
      kernels().fill({.out = *state});
    }
  }

 private:
  void push(std::size_t range, const RangeEvent& event) override {
    const auto n = static_cast<float>(delay_of(options_, own_replicas()));
    const auto lr = static_cast<float>(options_.outer.outer_lr),
               beta = static_cast<float>(options_.outer.outer_momentum);
    const double c = options_.momentum_activation;
    const Tensor g = difference(range, event.worker), theta = centre(range);
    const Tensor m = of_range(range, momentum_), delta = of_range(range, delta_);
    kernels().add({.in = g, .out = delta});
    const bool refreshes = ++pushes_[range] == delay_of(options_, own_replicas());
    double factor = c;
    if (refreshes) {
      kernels().blend({.in = delta, .out = m, .in_scale = 1 / n, .out_scale = beta});
      kernels().fill({.out = delta});
      pushes_[range] = 0;
      factor = 1 - c * n + c;
    }
    kernels().blend({.in = g, .out = theta, .in_scale = -lr * (1 / n), .out_scale = 1});
    if (factor == 0) return;
    kernels().blend({.in = m,
                     .out = theta,
                     .in_scale = -lr * static_cast<float>(factor) * beta,
                     .out_scale = 1});
  }

  AsyncDilocoOptions options_;
  std::vector<std::int64_t> pushes_;  // by range: since its momentum was refreshed
  Tensor momentum_, delta_;
};

std::unique_ptr<SyncScheme> define_async_diloco(const RankContext& context,
                                                const AsyncDilocoOptions& options) {
  return std::make_unique<AsyncDilocoReplay>(context, options);
}

double async_diloco_minimum_bytes(const StepShape& shape, const AsyncDilocoOptions& options) {
  return exchange_bytes(shape, options.servers, shape.world, options.outer.sync_every);
}

}  // namespace

void check(const AsyncDilocoOptions& options, const RunPlan& plan) {
  check_local_servers(options.servers, plan);
  check_equal_shares(plan);
  check_outer(options.outer, plan);
  const std::int64_t delay = delay_of(options, plan.world);
  if (options.momentum_activation * static_cast<double>(delay) > 1)
    throw Error(
        "scheme.async_diloco.momentum_activation = {} must lie between 0 and 1 / {}, where {} is "
        "the number of pushes from one refresh of the momentum to the next",
        options.momentum_activation, delay, delay);
}

Fields fields_of(AsyncDilocoOptions& options) {
  return with_servers(
      options.servers,
      with_outer(options.outer,
                 {{"momentum_activation", &options.momentum_activation,
                   "share of the momentum that moves the values with every push (c), at most 1 / "
                   "momentum_delay; 0: it moves them when it is refreshed",
                   Range::not_negative},
                  {"momentum_delay", &options.momentum_delay,
                   "pushes of a range after which its momentum is refreshed (N); 0: the number of "
                   "workers",
                   Range::not_negative}}));
}

std::unique_ptr<Optimizer> make_delayed_nesterov(const AsyncDilocoOptions& options, int workers,
                                                 Device& device, const Tensor& parameters) {
  return std::make_unique<DelayedNesterov>(options, workers, device, parameters);
}

SchemeInfo async_diloco_info() {
  using Own = AsyncDilocoOptions;
  auto r = server_scheme<Own>(
      "async_diloco", "local steps, each push applied at once with delayed Nesterov momentum",
      make_async_diloco, serve_async_diloco, async_diloco_minimum_bytes);
  r.promise = [](const Options&) { return Promise::replayed; };
  r.resumes = [](const Options&) { return true; };
  r.expendable = [](const Options&, int world) { return world - 1; };
  r.define = with_own<Own>(define_async_diloco);
  r.tried = {{"every_two", Own{.outer = {.sync_every = 2}}},
             {"two_servers", Own{.outer = {.sync_every = 1},
                                 .momentum_delay = 3,
                                 .momentum_activation = 0.25,
                                 .servers = {.servers = 2}}},
             {"by_speed", Own{.outer = {.sync_every = 4, .by_speed = true},
                              .servers = {.placement = Placement::colocated}}}};
  r.identities = {{.settings = {"scheme.async_diloco.sync_every=2", "scheme.diloco.sync_every=2"},
                   .other = "diloco",
                   .at_world = 1}};
  return r;
}

}  // namespace ringside::ps
