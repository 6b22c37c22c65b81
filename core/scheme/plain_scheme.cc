#include "core/scheme/plain_scheme.h"

#include "core/base/error.h"

namespace ringside {

SchemeInfo plain_scheme(std::string_view name, std::string_view summary, Options defaults) {
  SchemeInfo info;
  info.name = name;
  info.summary = summary;
  info.defaults = std::move(defaults);
  info.check = [](const Options&, const RunPlan&) {};
  info.order = [](const Options&, const RunPlan&) { return SumOrder::of_single; };
  info.promise = [](const Options&) { return Promise::same_run; };
  info.servers = [](const Options&, int) { return Servers{}; };
  info.minimum_bytes = [](const Options&, const StepShape&) { return 0.0; };
  info.expendable = [](const Options&, int) { return 0; };
  return info;
}

void refuse_skipped_steps(const RunPlan& plan, std::string_view who, std::string_view why) {
  if (plan.train.skip_not_finite > 0)
    throw Error(
        "train.skip_not_finite = {}: with {} workers do not skip the same steps: {}; leave it out",
        plan.train.skip_not_finite, who, why);
}

}  // namespace ringside
