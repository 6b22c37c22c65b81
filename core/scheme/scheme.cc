#include "core/scheme/scheme.h"

#include "core/plan/slices.h"

namespace ringside {

Batch SyncScheme::fetch(const BatchSlice& slice, const Loader& loader, const Pass& pass) {
  const auto span = context_.timeline.scope(Activity::data, "read batch");
  Batch batch = loader.read(slice);
  if (!pass.training) return batch;
  const BatchSlice next =
      next_slice(context_.plan, context_.self().worker, pass.step, pass.micro_batch);
  if (next.step < context_.plan.train.steps) loader.expect(next);
  return batch;
}

Loss SyncScheme::loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
                      const Pass& pass) {
  const auto span = context_.timeline.scope(Activity::compute, "loss");
  return cross_entropy(context_.device, logits, batch.targets, terms, pass.training);
}

}  // namespace ringside
