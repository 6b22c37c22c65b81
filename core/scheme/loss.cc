#include "core/scheme/loss.h"

#include <span>
#include <vector>

namespace ringside {
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

Loss cross_entropy(Device& device, const Tensor& logits, const Tensor& targets,
                   const LossTerms& terms, bool with_gradient) {
  std::int64_t per_sample = 0;
  for (const LossTerm& term : terms.terms) per_sample += term.rows;
  const std::int64_t samples = targets.count() / per_sample;
  const std::int64_t batch = terms.gradient_batch > 0 ? terms.gradient_batch : terms.global_batch;
  Loss loss;
  std::int64_t first_row = 0, first_logit = 0;
  for (const LossTerm& term : terms.terms) {
    const std::int64_t rows = terms.targets > 0 ? targets.count() : samples * term.rows;
    const std::int64_t all = terms.targets > 0 ? terms.targets : terms.global_batch * term.rows;
    const std::int64_t of_gradient = terms.targets > 0 ? terms.gradient_targets : batch * term.rows;
    Loss::Rows& part = loss.rows.emplace_back();
    part.scale = 1.0f / static_cast<float>(all);
    part.losses = device.tensor({rows}, MemoryKind::workspace);
    const bool first_term = loss.rows.size() == 1;
    if (first_term && !with_gradient) part.hits = device.tensor({rows}, MemoryKind::workspace);
    const Tensor own = logits.view(first_logit, {rows, term.classes});
    // The gradient overwrites the logits, which are not needed any more.
    device.kernels().cross_entropy(
        {.logits = own,
         .targets = targets.view(first_row, {rows}),
         .scale = 1.0f / static_cast<float>(of_gradient) * terms.gradient_scale,
         .losses = part.losses,
         .hits = part.hits,
         .dlogits = with_gradient ? own : Tensor{}});
    first_row += rows;
    first_logit += own.count();
  }
  if (with_gradient) loss.gradient = logits;
  if (device.runs_behind()) return loss;
  // Adds up the rows at once: rows that live until the end of the step would lie between blocks
  // that other tensors free, and so fragment the memory.
  return {.known = value_of(device, loss), .gradient = loss.gradient};
}

LossValue value_of(Device& device, const Loss& loss) {
  LossValue value = loss.known;
  for (const Loss::Rows& part : loss.rows) {
    const double term = sum_of(device, part.losses) * static_cast<double>(part.scale);
    value.loss += term;
    if (!part.hits) continue;
    value.first_term = term;
    value.accuracy = sum_of(device, part.hits) * static_cast<double>(part.scale);
  }
  return value;
}

}  // namespace ringside
