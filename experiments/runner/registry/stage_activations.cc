#include "experiments/runner/registry/stage_activations.h"

#include <utility>

#include "core/data/loader.h"
#include "core/device/counting_device.h"
#include "core/pipeline/activations.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/registry/model_borders.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

/// One stage by itself, with what comes over its borders.
class CountedStage {
 public:
  CountedStage(const RunPlan& plan, const Borders& borders, std::size_t stage)
      : plan_(plan),
        model_(make_model(plan.model, device_)),
        units_(stages_of(plan, model_.units.size())[stage]),
        side_(model_.edges.size()),
        saved_(units_.last - units_.first, Saved(side_)) {
    for (std::size_t u = units_.first; u < units_.last; ++u) {
      const Shape whole = {model_.units[u]->layout().count()};
      model_.units[u]->bind(device_.tensor(whole, MemoryKind::parameter, dtype()),
                            device_.tensor(whole, MemoryKind::gradient, dtype()));
    }
    if (stage > 0) before_ = &borders[stage - 1];
    if (stage < borders.size()) behind_ = &borders[stage];
  }

  /// Of forward, and of a whole backward.
  StageActivations count_whole() {
    StageActivations out;
    count_forward(out);
    out.in_backward = most_in([&] { backward(/*halves=*/false); });
    return out;
  }
  /// Of forward, and of the halves of backward.
  StageActivations count_halves() {
    StageActivations out;
    count_forward(out);
    out.in_input_gradient = most_in([&] { backward(/*halves=*/true); });
    out.for_weights = held();
    out.in_weight_gradient = most_in([&] {
      for (std::size_t u = units_.last; u-- > units_.first;) saved(u).finish_weights();
    });
    return out;
  }

 private:
  DType dtype() const { return parameter_dtype(plan_.train); }
  Saved& saved(std::size_t unit) { return saved_[unit - units_.first]; }
  std::int64_t held() const { return device_.ledger().current()[MemoryKind::activation]; }
  template <class Work>
  std::int64_t most_in(const Work& work) {
    device_.ledger().reset_peak();
    work();
    return device_.ledger().most()[MemoryKind::activation];
  }
  void count_forward(StageActivations& out) {
    out.in_forward = most_in([&] { output_ = forward(); });
    if (behind_) output_ = {};  // it leaves for the next stage
    out.kept = held();
  }
  bool recomputes(std::size_t unit) const {
    return plan_.train.recompute == Recompute::full && unit + 1 < model_.units.size();
  }

  Tensor input() {
    Tensor x;
    if (!before_)
      x = device_.tensor(stacked(plan_.train.micro_batch, model_.input), MemoryKind::data,
                         input_dtype(model_.task));
    else
      for (const BorderValue& value : *before_) {
        const bool is_data = value.dtype == DType::i32;
        const Tensor came = device_.tensor(
            value.shape, is_data ? MemoryKind::data : MemoryKind::activation, value.dtype);
        (value.edge == BorderValue::output ? x : side_[value.edge].value) = came;
      }
    return x;
  }
  /// Tables of other stages, as communication; here only their shapes matter.
  void take_tables() {
    for (std::size_t e = 0; e < model_.edges.size(); ++e)
      if (const Edge& edge = model_.edges[e]; is_table(edge) && has(edge.last) && !has(edge.from))
        side_[e].value = device_.tensor(shape_of(edge), MemoryKind::communication, dtype());
  }
  void take_gradients_of_tables() {
    for (std::size_t e = 0; e < model_.edges.size(); ++e)
      if (const Edge& edge = model_.edges[e]; is_table(edge) && has(edge.from) && !has(edge.last))
        side_[e].gradient = device_.tensor(shape_of(edge), MemoryKind::gradient, dtype());
  }
  static bool is_table(const Edge& edge) { return edge.kind == Edge::Kind::table; }
  bool has(std::size_t unit) const { return units_.first <= unit && unit < units_.last; }
  Shape shape_of(const Edge& edge) const {
    return model_.units[edge.from]->layout().parameters()[edge.parameter].shape;
  }

  Tensor forward() {
    take_tables();
    Tensor x = input();
    Pass pass = this->pass();
    for (std::size_t u = units_.first; u < units_.last; ++u) {
      inputs_.push_back(recomputes(u) ? x : Tensor{});
      pass.keep = !recomputes(u);
      x = model_.units[u]->forward(x, pass, saved(u));
    }
    return x;
  }
  Pass pass() const { return {.keep_attention = plan_.train.recompute != Recompute::attention}; }

  /// Where the model ends, the gradient of the losses has overwritten the last output.
  void backward(bool halves) {
    Tensor gradient = std::exchange(output_, {});
    take_gradients_of_tables();
    if (behind_)
      for (const BorderValue& value : *behind_) {
        if (!value.has_gradient) continue;
        const Tensor came =
            device_.tensor(value.gradient_shape, MemoryKind::workspace, value.gradient_dtype);
        (value.edge == BorderValue::output ? gradient : side_[value.edge].gradient) = came;
      }
    for (std::size_t u = units_.last; u-- > units_.first;) {
      Pass again = pass();
      again.again = true;
      if (recomputes(u))
        model_.units[u]->forward(std::exchange(inputs_[u - units_.first], {}), again, saved(u));
      saved(u).put_weights_off(halves);
      gradient = model_.units[u]->backward(gradient, saved(u));
    }
  }

  const RunPlan& plan_;
  CountingDevice device_;
  Model model_;
  UnitRange units_;
  const std::vector<BorderValue>* before_ = nullptr;
  const std::vector<BorderValue>* behind_ = nullptr;
  SideValues side_;
  std::vector<Saved> saved_;
  std::vector<Tensor> inputs_;  // of units that are recomputed
  Tensor output_{};             // between forward and backward
};

}  // namespace

std::vector<StageActivations> activations_of_stages(const RunPlan& plan) {
  const Borders borders = borders_of(plan);
  std::vector<StageActivations> out;
  for (std::size_t stage = 0; stage <= borders.size(); ++stage) {
    StageActivations& one = out.emplace_back(CountedStage(plan, borders, stage).count_halves());
    one.in_backward = CountedStage(plan, borders, stage).count_whole().in_backward;
  }
  return out;
}

double most_activations(const pipeline::Schedule& schedule, int rank,
                        const std::vector<StageActivations>& stages) {
  std::vector<pipeline::ActivationBytes> bytes;
  for (const StageActivations& one : stages)
    bytes.push_back({.before_input_gradient = static_cast<double>(one.kept),
                     .before_weight_gradient = static_cast<double>(one.for_weights),
                     .in_forward = static_cast<double>(one.in_forward),
                     .in_backward = static_cast<double>(one.in_backward),
                     .in_input_gradient = static_cast<double>(one.in_input_gradient),
                     .in_weight_gradient = static_cast<double>(one.in_weight_gradient)});
  return pipeline::most_activation_bytes(schedule, rank, bytes);
}

}  // namespace ringside::runner
