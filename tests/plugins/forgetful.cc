// Rows that are wrong on purpose, or share a name with another one: the tests say what is found.
#include <ringside/plugin.h>

#include "core/scheme/independent.h"

using namespace ringside;
using namespace ringside::peer;

namespace {

struct Own {};
Fields fields_of(Own&) { return {}; }

/// Averages with a share that is too small for more than one worker: worker and definition share
/// the mistake, so only the identity shows it.
class Shrinks final : public LocalRule {
 public:
  Shrinks(const RuleContext& context, const Own&) : LocalRule(context) {}
  bool gives(std::size_t, std::int64_t) const override { return true; }
  void give(const Fragment&, const Tensor& values, const Tensor& message) override {
    kernels().copy({.in = values, .out = message});
  }
  void take(const Fragment&, const Received& received, const Tensor& values) override {
    kernels().blend({.in = received.messages[0], .out = values, .in_scale = share() * share()});
  }
};

/// Exchanges nothing, whatever its definition says.
SchemeInfo lazy() {
  SchemeInfo r = local_scheme<Shrinks>("lazy", "replicas apart", "exchange", Own{});
  r.define = [](const RankContext& context, const Options&) { return define_independent(context); };
  r.identities = {{{"optimizer.kind=sgd"}, "single"}};
  r.minimum_bytes = [](const Options&, const StepShape& shape) {
    return sum_bytes(shape.world, shape.parameters, 1);
  };
  return r;
}

SchemeInfo shrinks() {
  SchemeInfo r = local_scheme<Shrinks>("shrinks", "a mean that is none", "exchange", Own{});
  r.identities = {{{"optimizer.kind=sgd"}, "single"}};
  r.minimum_bytes = [](const Options&, const StepShape& shape) {
    return sum_bytes(shape.world, shape.parameters, 1);
  };
  return r;
}

/// Keeps a sum from one exchange to the next, and does not show it: a run that goes on from a
/// checkpoint begins with none.
class Amnesic final : public LocalRule {
 public:
  Amnesic(const RuleContext& context, const Own&) : LocalRule(context) {}
  bool gives(std::size_t, std::int64_t) const override { return true; }
  void attach(const Tensor& values) override {
    kept_ = context().device.tensor({values.count()}, MemoryKind::optimizer);
    kernels().fill({.out = kept_});
  }
  void give(const Fragment&, const Tensor& values, const Tensor& message) override {
    kernels().copy({.in = values, .out = message});
  }
  void take(const Fragment&, const Received& received, const Tensor& values) override {
    kernels().blend(
        {.in = received.messages[0], .out = kept_, .in_scale = share(), .out_scale = 0.5F});
    kernels().copy({.in = kept_, .out = values});
  }

 private:
  Tensor kept_;
};

SchemeInfo amnesic() {
  SchemeInfo r = local_scheme<Amnesic>("amnesic", "a sum that is forgotten", "exchange", Own{});
  r.minimum_bytes = [](const Options&, const StepShape& shape) {
    return sum_bytes(shape.world, shape.parameters, 1);
  };
  return r;
}

/// Touches memory that nobody has.
class Crashes final : public LocalRule {
 public:
  Crashes(const RuleContext& context, const Own&) : LocalRule(context) {}
  bool gives(std::size_t, std::int64_t) const override { return true; }
  void give(const Fragment&, const Tensor&, const Tensor&) override {
    *static_cast<volatile int*>(nullptr) = 1;
  }
  void take(const Fragment&, const Received&, const Tensor&) override {}
};

SchemeInfo crashes() {
  SchemeInfo r = local_scheme<Crashes>("crashes", "a crash", "exchange", Own{});
  r.minimum_bytes = [](const Options&, const StepShape&) { return 0.0; };
  return r;
}

/// All values as they are, of which twice as much is added: worker and definition share that too.
class Doubles final : public compress::TensorCodes {
 public:
  using TensorCodes::TensorCodes;
  static std::int64_t bytes_of(const CompressionOptions&, const Shape& tensor) {
    return 4 * tensor.count();
  }

 private:
  std::int64_t bytes(const Piece& piece) const override { return bytes_of(options(), piece.shape); }
  void encode(const Piece& piece, const Tensor& values, const Tensor& code) override {
    kernels().copy({.in = values, .out = all(piece, code)});
  }
  void add(const Piece& piece, const Tensor& code, float scale, const Tensor& out) override {
    kernels().blend({.in = all(piece, code), .out = out, .in_scale = 2 * scale, .out_scale = 1});
  }
  static Tensor all(const Piece& piece, const Tensor& code) {
    return compress::within(code, 0, {piece.shape.count()}, DType::f32);
  }
};

}  // namespace

RINGSIDE_PLUGIN(lazy(), shrinks(), amnesic(), crashes(),
                compress::codes_info<Doubles>("doubles", "twice the gradient", {{"memory=none"}}))
