// DiLoCo, as a plug-in.
#include <ringside/plugin.h>

using namespace ringside;
using namespace ringside::peer;

namespace {

struct Own {
  std::int64_t sync_every = 10;
  double outer_lr = 0.7, outer_momentum = 0.9;
};
Fields fields_of(Own& own) {
  return {{"sync_every", &own.sync_every, "local steps between exchanges", Range::positive},
          {"outer_lr", &own.outer_lr, "of the outer optimizer", Range::positive},
          {"outer_momentum", &own.outer_momentum, "Nesterov's", Range::not_negative}};
}

class MyDiloco final : public LocalRule {
 public:
  MyDiloco(const RuleContext& context, const Own& own) : LocalRule(context), own_(own) {}

  bool gives(std::size_t, std::int64_t done) const override {
    return done % own_.sync_every == 0 || done == context().steps;
  }
  void attach(const Tensor& values) override {
    for (Tensor* state : {&global_, &momentum_})
      *state = context().device.tensor({values.count()}, MemoryKind::optimizer);
    kernels().copy({.in = values, .out = global_});
    kernels().fill({.out = momentum_});
  }
  /// All workers take the same sums, so their states stay the same.
  void visit_state(const RuleStateVisitor& visit) override {
    visit({"outer_parameters", global_, true, state_parameters});
    visit({"outer_momentum", momentum_, true});
  }
  /// The message: global - local.
  void give(const Fragment&, const Tensor& values, const Tensor& message) override {
    kernels().copy({.in = global_, .out = message});
    kernels().blend({.in = values, .out = message, .in_scale = -1, .out_scale = 1});
  }
  /// A step of the outer optimizer, with the mean of the messages as gradient.
  void take(const Fragment&, const Received& received, const Tensor& values) override {
    kernels().sgd({.parameters = global_,
                   .gradients = received.messages[0],
                   .velocity = own_.outer_momentum > 0 ? momentum_ : Tensor(),
                   .lr = static_cast<float>(own_.outer_lr),
                   .momentum = static_cast<float>(own_.outer_momentum),
                   .nesterov = own_.outer_momentum > 0,
                   .gradient_scale = share(),
                   .step = 2});
    kernels().copy({.in = global_, .out = values});
  }

 private:
  Own own_;
  Tensor global_, momentum_;
};

SchemeInfo info() {
  SchemeInfo r =
      local_scheme<MyDiloco>("my_diloco", "local steps, then an outer one", "outer", Own{});
  r.tried = {{"every_two", Own{.sync_every = 2}}};
  r.identities = {{{"scheme.my_diloco.sync_every=1", "scheme.my_diloco.outer_lr=1",
                    "scheme.my_diloco.outer_momentum=0", "optimizer.kind=sgd"},
                   "single"}};
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return sum_bytes(shape.world, shape.parameters, options.as<Own>().sync_every);
  };
  return r;
}

}  // namespace

RINGSIDE_PLUGIN(info())
