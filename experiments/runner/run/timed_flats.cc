#include "experiments/runner/run/timed_flats.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "core/observe/run_record.h"
#include "core/optim/optimizers.h"

namespace ringside::runner {
namespace {

/// The flat arrays that a rank keeps of a model: parameters, gradients, their sums, and optimizer
/// state.
class Flats {
 public:
  Flats(const RunPlan& plan, TimedDevice& device, std::int64_t count)
      : device_(device),
        count_(count),
        parameters_(filled(parameter_dtype(plan.train), 0.5f)),
        copies_(filled(parameter_dtype(plan.train), 0.5f)),
        gradients_(filled(sum_dtype(plan.train), 1e-3f)),
        sums_(filled(sum_dtype(plan.train), 1e-3f)),
        optimizer_(
            make_optimizer(plan.optimizer, {}, device_, parameters_,
                           {.stretches = {{.count = count_, .matrix = true}}, .parameters = 1})) {}

  std::int64_t count() const { return count_; }
  TimedDevice& device() { return device_; }

  void copy(std::int64_t begin, std::int64_t count) {
    device_.kernels().copy(
        {.in = parameters_.range(begin, count), .out = copies_.range(begin, count)});
  }
  void add(std::int64_t begin, std::int64_t count) {
    device_.kernels().add({.in = gradients_.range(begin, count), .out = sums_.range(begin, count)});
  }
  void update(std::int64_t begin, std::int64_t count) {
    const ParameterRange range{begin, parameters_.range(begin, count),
                               gradients_.range(begin, count)};
    constexpr StepInfo second{.step = 1};  // the first one does not read all of the state
    const auto no_others = [](std::span<double>) {};
    if (settle_rounds(*optimizer_, range, second, no_others)) optimizer_->update(range, second);
  }

 private:
  Tensor filled(DType dtype, float value) {
    Tensor out = device_.tensor({count_}, MemoryKind::gradient, dtype);
    device_.kernels().fill({.out = out, .value = value});
    return out;
  }

  TimedDevice& device_;
  std::int64_t count_;
  Tensor parameters_, copies_, gradients_, sums_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Does `piece` to one piece of the model after the other, for a while. Returns the operations with
/// the medians of their times.
std::vector<TimedOp> repeat(Flats& flats, std::int64_t count,
                            const std::function<void(std::int64_t begin)>& piece) {
  constexpr double enough = 0.006;  // seconds
  constexpr int least = 4;
  constexpr std::size_t most_pending = 16;  // operations of a device that runs behind the host
  using Cost = std::tuple<OpClass, double, double, DType>;
  std::map<Cost, std::vector<double>> times;
  const Clock& clock = flats.device().clock();
  const auto take = [&] {
    for (const TimedOp& op : flats.device().take_ops())
      times[{op.cost.kind, op.cost.operations, op.cost.bytes, op.cost.dtype}].push_back(op.seconds +
                                                                                        op.before);
  };
  flats.device().take_ops();
  const double begin = clock.now();
  for (std::int64_t at = 0, done = 0; done < least || clock.now() < begin + enough; ++done) {
    flats.device().pause();
    piece(at);
    if (flats.device().recorded() >= most_pending) take();
    at = at + 2 * count <= flats.count() ? at + count : 0;
  }
  take();
  std::vector<TimedOp> out;
  for (auto& [cost, seconds] : times) {
    const auto& [kind, operations, bytes, dtype] = cost;
    out.push_back({{kind, operations, bytes, dtype}, quantiles(std::move(seconds)).median});
  }
  return out;
}

}  // namespace

std::vector<TimedOp> time_flats(const RunPlan& plan, TimedDevice& device, std::int64_t count,
                                const std::function<void()>& meet) {
  Flats flats(plan, device, count);
  std::vector<TimedOp> out;
  const auto time = [&](std::int64_t piece, auto method) {
    meet();
    const auto timed =
        repeat(flats, piece, [&](std::int64_t begin) { (flats.*method)(begin, piece); });
    out.insert(out.end(), timed.begin(), timed.end());
  };
  std::int64_t whole = smallest_piece;
  while (4 * whole <= count) whole *= 4;
  for (std::int64_t piece = std::min(whole, count); piece > 0;
       piece = piece > smallest_piece ? piece / 4 : 0) {
    time(piece, &Flats::copy);
    time(piece, &Flats::add);
    time(piece, &Flats::update);
  }
  return out;
}

}  // namespace ringside::runner
