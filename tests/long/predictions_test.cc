// Calibrates this machine, and compares predictions with what is then measured. Needs a machine
// that does nothing else.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/device/cost.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

class Predictions : public ::testing::Test {
 protected:
  void run(std::vector<std::string> arguments) const {
    const testing::Ended ended =
        testing::Program(RINGSIDE_PROGRAM, std::move(arguments), folder_.path()).wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
  }
  /// The cases of the quickstart with these settings, each of which has a prediction.
  nlohmann::json cases_with(const std::vector<std::string>& settings) const {
    std::vector<std::string> arguments = {"compare", RINGSIDE_EXPERIMENTS "/quickstart.toml"};
    for (const char* setting : {"data.kind=synthetic", "data.path=[]", "compare.all_cores=false"})
      arguments.insert(arguments.end(), {"--set", setting});
    for (const std::string& setting : settings)
      arguments.insert(arguments.end(), {"--set", setting});
    run(arguments);
    return cases_of("quickstart");
  }
  nlohmann::json cases_of(const std::string& name) const {
    std::ifstream in(folder_.path() / "results" / name / "summary.json");
    return nlohmann::json::parse(in).at("cases");
  }
  const std::filesystem::path& folder() const { return folder_.path(); }
  static std::string name_of(const nlohmann::json& one) {
    return one.at("label").get<std::string>() + " at world " + one.at("world").dump();
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(Predictions, AreMadeOfAnEfficiencyOfEveryClassOfOperations) {
  run({"calibrate"});
  std::ifstream in(folder() / "results" / "machine.toml");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  for (const std::string_view name : op_class_names)
    EXPECT_NE(text.find(fmt::format("\n{} = ", name)), std::string::npos) << name << text;
}

TEST_F(Predictions, OfEverySchemeComeWithin15PercentOfTimeAnd2OfMemory) {
  run({"calibrate"});
  const auto cases = cases_with({});
  ASSERT_EQ(cases.size(), 9u);
  for (const auto& one : cases) {
    const std::string name = name_of(one);
    ASSERT_FALSE(one.at("predicted").is_null()) << name;
    EXPECT_LT(std::abs(one["predicted"]["step_ms_error"].get<double>()), 0.15) << name;
    // How many messages the master of dp holds at its peak depends on when they arrive.
    const double memory = one.at("scheme") == "dp" ? 0.03 : 0.02;
    EXPECT_LT(std::abs(one["predicted"]["memory_peak_error"].get<double>()), memory) << name;
  }
}

/// An experiment of experiments/machine, and how far off the steps of its cases may be.
struct Timed {
  const char* name;
  double median, worst;
};

class PredictionsOfTimedModels : public Predictions, public ::testing::WithParamInterface<Timed> {};

TEST_P(PredictionsOfTimedModels, AreMadeOfTheTimesOfTheirOwnOperations) {
  const Timed timed = GetParam();
  const std::string file = fmt::format("{}/machine/{}.toml", RINGSIDE_EXPERIMENTS, timed.name);
  run({"calibrate", file});
  run({"compare", file});
  std::vector<double> errors;
  for (const auto& one : cases_of(timed.name)) {
    if (one.at("predicted").is_null() || one.at("disturbed").get<int>() > 0) continue;
    errors.push_back(std::abs(one["predicted"]["step_ms_error"].get<double>()));
    EXPECT_LT(errors.back(), timed.worst) << name_of(one);
  }
  ASSERT_GE(errors.size(), 20u);
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  std::printf("%s: %zu cases, median %.1f%% off\n", timed.name, errors.size(), 100 * *middle);
  EXPECT_LT(*middle, timed.median);
}

INSTANTIATE_TEST_SUITE_P(
    Of, PredictionsOfTimedModels,
    ::testing::Values(Timed{"gpt-small", 0.1, 0.35}, Timed{"gpt-large", 0.05, 0.15},
                      Timed{"bert-small", 0.1, 0.35}, Timed{"bert-large", 0.06, 0.15},
                      Timed{"resnet-small", 0.1, 0.35}, Timed{"resnet-large", 0.05, 0.15},
                      Timed{"vgg-small", 0.1, 0.35}, Timed{"vgg-large", 0.08, 0.3},
                      Timed{"mlp-small", 0.2, 0.8}, Timed{"mlp-large", 0.3, 0.6}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace ringside
