#include "core/scheme/scheme_info.h"

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

}  // namespace ringside
