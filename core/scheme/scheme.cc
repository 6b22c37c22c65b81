#include "core/scheme/scheme.h"

namespace ringside {

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

}  // namespace ringside
