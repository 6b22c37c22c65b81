// The case that `advise` advises on this machine, measured against the fastest one here.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

class AdviceOnThisMachine : public ::testing::TestWithParam<const char*> {};

/// All ways of training that `advise` considers are run. (One process on all cores is none of them:
/// a calibration is of ranks with so many threads.)
TEST_P(AdviceOnThisMachine, IsWithin5PercentOfTheFastest) {
  constexpr double close = 0.05;
  const testing::TemporaryFolder folder;
  const std::string experiment = std::string(RINGSIDE_EXPERIMENTS "/") + GetParam() + ".toml";
  const auto run = [&](const std::vector<std::string>& arguments) {
    const testing::Ended ended =
        testing::Program(RINGSIDE_PROGRAM, arguments, folder.path()).wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended.out;
  };
  run({"calibrate", experiment});
  const std::string advice = run({"advise", experiment, "--cases", "100"});
  const std::string name = std::filesystem::path(experiment).stem().string();
  run({"compare", "results/advise/" + name + ".toml", "--set", "compare.repeats=5"});
  const std::string first_case = advice.substr(advice.find("Advised: ") + 9);
  const std::string advised_label = first_case.substr(0, first_case.find(", at world"));
  const auto summary =
      nlohmann::json::parse(std::ifstream(folder.path() / "results" / name / "summary.json"));
  double advised = 0, fastest = 0;
  std::string table;
  for (const auto& one : summary.at("cases")) {
    const double speed = one.at("samples_per_s");
    const std::string label = one.at("label");
    if (advice.find(" " + label + " |") == std::string::npos) continue;
    if (label == advised_label) advised = speed;
    fastest = std::max(fastest, speed);
    table += label + ": " + std::to_string(speed) + " samples/s\n";
  }
  EXPECT_GE(advised, (1 - close) * fastest) << advice << table;
  RecordProperty("advised_of_fastest", std::to_string(advised / fastest));
}

INSTANTIATE_TEST_SUITE_P(Of, AdviceOnThisMachine,
                         ::testing::Values("quickstart", "machine/gpt-small", "machine/bert-small",
                                           "machine/resnet-small", "machine/vgg-small"));

TEST(AdviceForTheLargestModel, TakesLessThanAMinute) {
  const testing::TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const testing::Ended ended =
      testing::Program(RINGSIDE_PROGRAM,
                       {"advise", "llama3.1-405b", "--cluster",
                        RINGSIDE_EXPERIMENTS "/clusters/h100-64x8-infiniband-400.toml", "--batch",
                        "1024", "--set", "model.context=4096"},
                       folder.path())
          .wait();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find("Advised: fsdp"), std::string::npos) << ended.out;
  EXPECT_LT(took.count(), 60);
}

}  // namespace
}  // namespace ringside
