#include "core/scheme.h"

#include <vector>

namespace ringside {

std::shared_ptr<const InitialValues> initial_values(const RankContext& context) {
  if (context.initial_values) return context.initial_values;
  return drawn_values(static_cast<std::uint64_t>(context.plan.train.seed));
}

Batch SyncScheme::fetch(const BatchSlice& slice, const Loader& loader, const Pass& pass) {
  const auto span = context_.timeline.scope(Activity::data, "read batch");
  Batch batch = loader.read(slice);
  if (!pass.training) return batch;
  const BatchSlice next = next_slice(slice, pass.micro_batch, pass.micro_batches);
  if (next.step < context_.plan.train.steps) loader.expect(next);
  return batch;
}

Loss SyncScheme::loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
                      const Pass& pass) {
  const auto span = context_.timeline.scope(Activity::compute, "loss");
  return cross_entropy(context_.device, logits, batch.targets, terms, pass.training);
}

Loss cross_entropy(Device& device, const Tensor& logits, const Tensor& targets,
                   const LossTerms& terms, bool with_gradient) {
  std::int64_t per_sample = 0;
  for (const LossTerm& term : terms.terms) per_sample += term.rows;
  const std::int64_t samples = targets.count() / per_sample;
  Loss loss;
  std::int64_t first_row = 0, first_logit = 0;
  for (const LossTerm& term : terms.terms) {
    const std::int64_t rows = samples * term.rows;
    Loss::Rows& part = loss.rows.emplace_back();
    part.scale = 1.0f / static_cast<float>(terms.global_batch * term.rows);
    part.losses = device.tensor({rows}, MemoryKind::workspace);
    if (!with_gradient) part.hits = device.tensor({rows}, MemoryKind::workspace);
    const Tensor own = logits.view(first_logit, {rows, term.classes});
    // The gradient takes the place of the logits, which nobody needs afterwards.
    device.kernels().cross_entropy({.logits = own,
                                    .targets = targets.view(first_row, {rows}),
                                    .scale = part.scale * terms.gradient_scale,
                                    .losses = part.losses,
                                    .hits = part.hits,
                                    .dlogits = with_gradient ? own : Tensor{}});
    first_row += rows;
    first_logit += own.count();
  }
  if (with_gradient) loss.gradient = logits;
  if (device.runs_behind()) return loss;
  // What is kept until the end of a step would lie between what others let go of meanwhile.
  return {.known = value_of(device, loss), .gradient = loss.gradient};
}

namespace {

double sum_of(Device& device, const Tensor& rows) {
  if (!rows) return 0;
  std::vector<float> values(static_cast<std::size_t>(rows.count()));
  device.read(rows, std::as_writable_bytes(std::span(values)));
  double sum = 0;
  for (float value : values) sum += value;
  return sum;
}

}  // namespace

LossValue value_of(Device& device, const Loss& loss) {
  LossValue value = loss.known;
  for (const Loss::Rows& part : loss.rows) {
    value.loss += sum_of(device, part.losses) * static_cast<double>(part.scale);
    value.accuracy += sum_of(device, part.hits) * static_cast<double>(part.scale);
  }
  return value;
}

}  // namespace ringside
