// A plain SchemeInfo to begin with, and functions to fill one.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "core/scheme/scheme_info.h"

namespace ringside {

/// The info of a scheme whose options are all valid, which has no servers, which promises the same
/// run as `single`, and which may send nothing.
SchemeInfo plain_scheme(std::string_view name, std::string_view summary, Options defaults);

/// Throws Error if train.skip_not_finite is set, for SchemeInfo::check of schemes with which
/// workers cannot all skip a step: `who`, and why.
void refuse_skipped_steps(const RunPlan& plan, std::string_view who, std::string_view why);

/// SchemeInfo::resumes of a scheme whose ranks show all of their state if they promise the run of
/// `single`: what else they keep otherwise, such as error memories, they do not show.
inline std::function<bool(const Options&)> resumes_the_same_run(
    std::function<Promise(const Options&)> promise) {
  return [promise = std::move(promise)](const Options& options) {
    return promise(options) == Promise::same_run;
  };
}

/// A function of SchemeInfo: `function`, which takes the scheme's own options, of type Own, where
/// SchemeInfo has Options.
template <class Own, class Result, class Other>
auto with_own(Result (*function)(const Own&, Other)) {
  return [function](const Options& options, Other other) -> Result {
    return function(options.as<Own>(), other);
  };
}
template <class Own, class Result, class Other>
auto with_own(Result (*function)(Other, const Own&)) {
  return [function](Other other, const Options& options) -> Result {
    return function(other, options.as<Own>());
  };
}

}  // namespace ringside
