// Small runs of any scheme, with ranks as threads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
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
#include "tests/support/some_text.h"
#include "tests/support/temporary_folder.h"

namespace ringside::testing {

inline const std::string& text_path() {
  static const TemporaryFolder folder;
  static const std::string path = folder.write("text.txt", some_text(20'000));
  return path;
}

/// The names of all schemes with several workers; `promised` leaves out those that promise
/// something else. The names for degrees of fsdp are left out: degrees_test.cc is about these. So
/// are schemes of other programs, which are no threads.
inline std::vector<std::string> scheme_names(std::optional<Promise> promised = {}) {
  std::vector<std::string> names;
  for (const SchemeInfo& row : runner::scheme_rows())
    if (!row.program && row.max_world != 1 &&
        default_promise(row) == promised.value_or(default_promise(row)) &&
        !row.name.starts_with("zero"))
      names.emplace_back(row.name);
  return names;
}

/// A test of one scheme at one world.
class SchemeAtWorld : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  std::string scheme() const { return std::get<0>(GetParam()); }
  int world() const { return std::get<1>(GetParam()); }
  bool exact() const { return default_promise(runner::find_scheme(scheme())) == Promise::same_run; }
};

inline auto every_scheme_at(std::initializer_list<int> worlds) {
  return ::testing::Combine(::testing::ValuesIn(scheme_names()), ::testing::ValuesIn(worlds));
}
/// The schemes that promise the training run of `single`.
inline auto every_exact_scheme_at(std::initializer_list<int> worlds) {
  return ::testing::Combine(::testing::ValuesIn(scheme_names(Promise::same_run)),
                            ::testing::ValuesIn(worlds));
}
inline std::string name_of_case(const ::testing::TestParamInfo<SchemeAtWorld::ParamType>& info) {
  return std::get<0>(info.param) + "_world_" + std::to_string(std::get<1>(info.param));
}

inline runner::ExperimentConfig tiny(const std::string& model) {
  runner::ExperimentConfig config;
  config.name = "conformance";
  config.model = {.kind = model, .layers = 2, .heads = 2, .width = 24, .context = 8};
  config.data.path = {text_path()};
  config.train.steps = 5;
  config.train.warmup = 1;
  config.train.global_batch = 24;  // divisible by 1, 2, 3 and 4 ranks with 2 micro-batches each
  config.train.timeout_s = 60;
  config.optimizer.lr = 1e-2;
  config.optimizer.weight_decay = 0.1;
  return config;
}

/// The smallest model with batch norms, on images that the program makes.
inline runner::ExperimentConfig tiny_resnet() {
  auto config = tiny("resnet");
  config.model.layers = 10;
  config.model.filters = 3;
  config.model.image = 9;
  config.model.classes = 4;
  config.data.kind = "synthetic-images";
  config.data.path.clear();
  return config;
}

/// Runs a plan, with another scheme than the plan names if `scheme` is not null.
inline RunRecord run(const RunPlan& plan, const SchemeInfo* scheme = nullptr) {
  return make_row(plan, runner::run_ranks_as_threads(plan, scheme));
}

/// The row of `single` over the micro-batches of all ranks of a run.
inline RunRecord reference_of(runner::ExperimentConfig config, int world) {
  config.scheme_options["single"] = SingleOptions{.replicas = world};
  return run(runner::plan_training(config, "single", 1));
}

/// The row of the definition of a scheme's run: the definition that the scheme brings or, if it has
/// none for this run, `single` over the micro-batches of all ranks.
inline RunRecord definition_of(const runner::ExperimentConfig& config, const std::string& scheme,
                               int world) {
  const RunPlan plan = runner::plan_training(config, scheme, world);
  return has_own_definition(plan) ? run(runner::plan_definition(plan))
                                  : reference_of(config, world);
}

/// The largest relative difference of two curves.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return largest;
}

}  // namespace ringside::testing
