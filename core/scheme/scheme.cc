#include "core/scheme/scheme.h"

#include "core/base/error.h"
#include "core/plan/slices.h"

namespace ringside {

std::optional<StepAssignment> SyncScheme::next_assignment(std::int64_t done) {
  const TrainConfig& train = context_.plan.train;
  if (done >= train.steps) return {};
  return StepAssignment{.step = done, .micro_batches = train.accumulation};
}

void SyncScheme::visit_state(const StateVisitor&) {
  throw Error("scheme {} does not show its state", context_.plan.scheme);
}

void SyncScheme::restored(std::int64_t) {
  throw Error("scheme {} cannot go on from a state", context_.plan.scheme);
}

Batch SyncScheme::fetch(const BatchSlice& slice, const Loader& loader, const Pass& pass) {
  const auto span = context_.timeline.scope(Activity::data, "read batch");
  Batch batch = loader.read(slice);
  if (!pass.training) return batch;
  BatchSlice next = next_slice(context_.plan, context_.self().worker, pass.step,
                               pass.micro_batch + pass.ranks - 1);
  next.count *= pass.ranks;
  if (next.step < context_.plan.train.steps) loader.expect(next);
  return batch;
}

Loss SyncScheme::loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
                      const Pass& pass) {
  const auto span = context_.timeline.scope(Activity::compute, "loss");
  return cross_entropy(context_.device, logits, batch.targets, terms, pass.training);
}

}  // namespace ringside
