#include "core/scheme.h"

#include <vector>

namespace ringside {

Batch SyncScheme::fetch(const BatchSlice& slice, const Loader& loader, const Pass&) {
  const auto span = context_.timeline.scope(Activity::data, "read batch");
  return loader.read(slice);
}

Loss SyncScheme::loss(const Tensor& logits, const Batch& batch, float scale, const Pass& pass) {
  const auto span = context_.timeline.scope(Activity::compute, "loss");
  return cross_entropy(context_.device, logits, batch.targets, scale, pass.training);
}

Loss cross_entropy(Device& device, const Tensor& logits, const Tensor& targets, float scale,
                   bool with_gradient) {
  const std::int64_t rows = targets.count();
  const Tensor flat = targets.reshaped({rows});
  const Tensor losses = device.tensor({rows}, MemoryKind::workspace);
  // The gradient takes the place of the logits, which nobody needs afterwards.
  const Tensor gradient = with_gradient ? logits : Tensor{};
  device.kernels().cross_entropy(
      {.logits = logits, .targets = flat, .scale = scale, .losses = losses, .dlogits = gradient});
  const Loss loss{.rows = losses, .scale = scale, .gradient = gradient};
  if (device.runs_behind()) return loss;
  // What is kept until the end of a step would lie between what others let go of meanwhile.
  return {.known = value_of(device, loss), .gradient = gradient};
}

double value_of(Device& device, const Loss& loss) {
  if (!loss.rows) return loss.known;
  std::vector<float> rows(static_cast<std::size_t>(loss.rows.count()));
  device.read(loss.rows, std::as_writable_bytes(std::span(rows)));
  double sum = 0;
  for (float row : rows) sum += row;
  return loss.known + sum * static_cast<double>(loss.scale);
}

}  // namespace ringside
