// Calibrates this machine, and compares predictions with what is then measured. Needs a machine
// that does nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

class Predictions : public ::testing::Test {
 protected:
  Predictions() { run({"calibrate"}); }

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
    std::ifstream in(folder_.path() / "results/quickstart/summary.json");
    auto cases = nlohmann::json::parse(in).at("cases");
    for (const auto& one : cases) EXPECT_FALSE(one.at("predicted").is_null()) << name_of(one);
    return cases;
  }
  static std::string name_of(const nlohmann::json& one) {
    return one.at("label").get<std::string>() + " at world " + one.at("world").dump();
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(Predictions, OfEverySchemeComeWithin15PercentOfTimeAnd2OfMemory) {
  const auto cases = cases_with({});
  ASSERT_EQ(cases.size(), 9u);
  for (const auto& one : cases) {
    const std::string name = name_of(one);
    EXPECT_LT(std::abs(one["predicted"]["step_ms_error"].get<double>()), 0.15) << name;
    // How many messages the master of dp holds at its peak depends on when they arrive.
    const double memory = one.at("scheme") == "dp" ? 0.03 : 0.02;
    EXPECT_LT(std::abs(one["predicted"]["memory_peak_error"].get<double>()), memory) << name;
  }
}

}  // namespace
}  // namespace ringside
