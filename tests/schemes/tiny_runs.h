// Small runs of any scheme, with ranks as threads.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "core/observe/run_record.h"
#include "core/plan/same_run.h"
#include "core/scheme/single.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/plan/references.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/rank.h"
#include "experiments/tools/check/tiny_runs.h"
#include "tests/support/name_in_tests.h"
#include "tests/support/some_text.h"
#include "tests/support/temporary_folder.h"

namespace ringside::testing {

inline const std::string& text_path() {
  static const TemporaryFolder folder;
  static const std::string path = folder.write("text.txt", some_text(20'000));
  return path;
}

/// The schemes with several workers. The names for degrees of fsdp are left out: degrees_test.cc is
/// about these. So are schemes of other programs, which are no threads.
inline std::vector<const SchemeInfo*> own_schemes() {
  std::vector<const SchemeInfo*> out;
  for (const SchemeInfo& info : runner::scheme_rows())
    if (!info.program && info.max_world != 1 && !info.name.starts_with("zero"))
      out.push_back(&info);
  return out;
}
/// Those whose runs have a definition before they have ended.
inline std::vector<const SchemeInfo*> defined_schemes() {
  std::vector<const SchemeInfo*> out = own_schemes();
  std::erase_if(out,
                [](const SchemeInfo* info) { return default_promise(*info) == Promise::replayed; });
  return out;
}
inline std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const SchemeInfo* info : defined_schemes()) names.emplace_back(info->name);
  return names;
}

using tools::check::definition_of;
using tools::check::reference_of;
using tools::check::replay_plan_of;
using tools::check::run;
using tools::check::TriedScheme;

/// The schemes with all options that they are tested with; `promised` leaves out those that promise
/// something else. Those whose runs are replayed, of which no two are equal, are asked for by name.
inline std::vector<TriedScheme> tried_schemes(std::optional<Promise> promised = {}) {
  std::vector<TriedScheme> out;
  const auto add = [&](const TriedScheme& one) {
    const bool fits = promised ? one.promise() == *promised : one.promise() != Promise::replayed;
    if (fits) out.push_back(one);
  };
  for (const SchemeInfo* info : own_schemes()) {
    add({info});
    for (const TriedOptions& tried : info->tried) add({info, &tried});
  }
  return out;
}

/// A test of one scheme at one world.
class SchemeAtWorld : public ::testing::TestWithParam<std::tuple<TriedScheme, int>> {
 protected:
  const TriedScheme& tried() const { return std::get<0>(GetParam()); }
  std::string scheme() const { return std::string(tried().info->name); }
  int world() const { return std::get<1>(GetParam()); }
  tools::check::CheckedScheme checked() const { return {tried(), world()}; }
  bool exact() const { return checked().exact(); }
  /// The run of the configuration, and the row of its definition, with the options of this test
  /// unless the configuration has some for the scheme.
  RunPlan plan_of(const runner::ExperimentConfig& config) const {
    return checked().plan_of(config);
  }
  RunRecord definition(const runner::ExperimentConfig& config) const {
    return checked().definition(config);
  }
};

/// Tests of schemes at these worlds. With options that are not their defaults they are tested at
/// `tried_at` alone, if it is not 0.
inline auto at_worlds(const std::vector<TriedScheme>& schemes, std::initializer_list<int> worlds,
                      int tried_at) {
  std::vector<SchemeAtWorld::ParamType> out;
  for (const TriedScheme& one : schemes)
    for (const int world : worlds)
      if (!one.tried || tried_at == 0 || world == tried_at) out.emplace_back(one, world);
  return ::testing::ValuesIn(out);
}
inline auto every_scheme_at(std::initializer_list<int> worlds, int tried_at = 0) {
  return at_worlds(tried_schemes(), worlds, tried_at);
}
/// The schemes whose runs are proven by replaying what they recorded.
inline auto every_replayed_scheme_at(std::initializer_list<int> worlds) {
  return at_worlds(tried_schemes(Promise::replayed), worlds, 0);
}
/// The schemes that promise the training run of `single`.
inline auto every_exact_scheme_at(std::initializer_list<int> worlds, int tried_at = 0) {
  return at_worlds(tried_schemes(Promise::same_run), worlds, tried_at);
}
inline std::string name_of_case(const ::testing::TestParamInfo<SchemeAtWorld::ParamType>& info) {
  return fmt::format("{}_world_{}", name_in_tests(std::get<0>(info.param).name()),
                     std::get<1>(info.param));
}

inline runner::ExperimentConfig tiny(const std::string& model) {
  return tools::check::tiny(model, text_path());
}
inline runner::ExperimentConfig tiny_resnet() { return tools::check::tiny_resnet(text_path()); }

/// The largest relative difference of two curves.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return largest;
}

}  // namespace ringside::testing
