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
inline std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const SchemeInfo* info : own_schemes()) names.emplace_back(info->name);
  return names;
}

/// A scheme with its default options, or with others that it is tested with.
struct TriedScheme {
  const SchemeInfo* info;
  const TriedOptions* tried = nullptr;  // of `info`; null: the defaults

  const Options& options() const { return tried ? tried->options : info->defaults; }
  Promise promise() const { return info->promise(options()); }
  std::string name() const {
    return name_in_tests(tried ? fmt::format("{}_{}", info->name, tried->name) : info->name);
  }
  friend std::ostream& operator<<(std::ostream& out, const TriedScheme& one) {
    return out << one.name();
  }
};

/// The schemes with all options that they are tested with; `promised` leaves out those that promise
/// something else.
inline std::vector<TriedScheme> tried_schemes(std::optional<Promise> promised = {}) {
  std::vector<TriedScheme> out;
  const auto add = [&](const TriedScheme& one) {
    if (one.promise() == promised.value_or(one.promise())) out.push_back(one);
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
  bool exact() const { return tried().promise() == Promise::same_run; }
  /// The number of replicas that have parameters of their own.
  std::size_t replicas() const {
    return tried().info->own_replicas ? static_cast<std::size_t>(world()) : 1;
  }
  /// The run of the configuration, and the row of its definition, with the options of this test
  /// unless the configuration has some for the scheme.
  RunPlan plan_of(const runner::ExperimentConfig& config) const;
  RunRecord definition(const runner::ExperimentConfig& config) const;

 private:
  runner::ExperimentConfig with_options(runner::ExperimentConfig config) const {
    config.scheme_options.try_emplace(scheme(), tried().options());
    return config;
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
/// The schemes that promise the training run of `single`.
inline auto every_exact_scheme_at(std::initializer_list<int> worlds, int tried_at = 0) {
  return at_worlds(tried_schemes(Promise::same_run), worlds, tried_at);
}
inline std::string name_of_case(const ::testing::TestParamInfo<SchemeAtWorld::ParamType>& info) {
  return fmt::format("{}_world_{}", std::get<0>(info.param).name(), std::get<1>(info.param));
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

inline RunPlan SchemeAtWorld::plan_of(const runner::ExperimentConfig& config) const {
  return runner::plan_training(with_options(config), scheme(), world());
}
inline RunRecord SchemeAtWorld::definition(const runner::ExperimentConfig& config) const {
  return definition_of(with_options(config), scheme(), world());
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
