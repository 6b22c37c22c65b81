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

TEST(Predictions, OfEverySchemeComeWithin15PercentOfTimeAnd2OfMemory) {
  const testing::TemporaryFolder folder;
  const auto run = [&](std::vector<std::string> arguments) {
    const testing::Ended ended =
        testing::Program(RINGSIDE_PROGRAM, std::move(arguments), folder.path()).wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
  };
  run({"calibrate"});
  run({"compare", RINGSIDE_EXPERIMENTS "/quickstart.toml", "--set", "data.kind=synthetic", "--set",
       "data.path=[]", "--set", "compare.all_cores=false"});
  std::ifstream in(folder.path() / "results/quickstart/summary.json");
  const auto cases = nlohmann::json::parse(in).at("cases");
  ASSERT_EQ(cases.size(), 9u);
  for (const auto& one : cases) {
    const std::string name =
        one.at("label").get<std::string>() + " at world " + one.at("world").dump();
    ASSERT_FALSE(one.at("predicted").is_null()) << name;
    EXPECT_LT(std::abs(one["predicted"]["step_ms_error"].get<double>()), 0.15) << name;
    // How many messages the master of dp holds at its peak depends on when they arrive.
    const double memory = one.at("scheme") == "dp" ? 0.03 : 0.02;
    EXPECT_LT(std::abs(one["predicted"]["memory_peak_error"].get<double>()), memory) << name;
  }
}

}  // namespace
}  // namespace ringside
