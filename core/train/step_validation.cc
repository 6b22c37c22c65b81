#include "core/train/step_validation.h"

#include <utility>

#include "core/scheme/pipeline_group.h"

namespace ringside {

StepValidation::StepValidation(const RankContext& context, const Model& model, SyncScheme& scheme,
                               LossScale& loss_scale)
    : context_(context),
      scheme_(scheme),
      loss_scale_(loss_scale),
      skips_(context.plan.train.skip_not_finite > 0),
      last_(std::make_unique<SkippedStep>(context.device, model)),
      begun_(std::make_unique<SkippedStep>(context.device, model)) {}

PostValidation* StepValidation::early() const {
  PostValidation* const validation = context_.pipeline ? context_.pipeline->validation() : nullptr;
  return validation && validation->is_due() ? validation : nullptr;
}

void StepValidation::begin_step() {
  has_begun_ = early() != nullptr;
  if (has_begun_)
    begun_->begin_step();
  else if (skips_)
    last_->begin_step();
}

bool StepValidation::update(std::int64_t step) {
  scale_before_ = loss_scale_.state();
  const bool finite = scheme_.step({step, loss_scale_.value()});
  loss_scale_.update(finite);
  if (skips_ && !finite) last_->put_back();
  return finite;
}

bool StepValidation::validate() {
  PostValidation* const validation = early();
  if (!validation) return true;
  const auto verdict =
      validation->validate([this](const auto& put_right) { scheme_.amend(put_right); });
  const bool right = verdict == PostValidation::Verdict::right;
  if (!right) put_right(verdict == PostValidation::Verdict::undone);
  // What was kept when the step after began is now that of the last one.
  if (has_begun_ && verdict != PostValidation::Verdict::undone) std::swap(last_, begun_);
  has_begun_ = false;
  return right;
}

void StepValidation::put_right(bool undone) {
  if (has_begun_) begun_->put_back();
  if (!undone) return;
  loss_scale_.restore(scale_before_);
  loss_scale_.update(false);
  if (skips_) last_->put_back();
}

}  // namespace ringside
