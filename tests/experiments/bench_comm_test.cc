// `ringside bench comm`, by the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

class BenchComm : public ProgramTest {
 protected:
  nlohmann::json results_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "comm", "--json", "figures.json"});
    const testing::Ended ended = run(arguments);
    EXPECT_EQ(ended.status, 0) << ended.err;
    out_ = ended.out;
    std::ifstream in(path("figures.json"));
    return nlohmann::json::parse(in).at("results");
  }

  std::string out_;  // what the program printed
};

TEST_F(BenchComm, ChecksEveryOperationOfEveryAlgorithmBetweenProcesses) {
  const auto results =
      results_of({"--operations", "all_reduce,reduce_scatter,all_gather,broadcast,all_to_all",
                  "--worlds", "2,3", "--sizes", "48,64KB", "--rounds", "5"});
  EXPECT_EQ(results.size(), 5u * 7 * 2 * 2);
  EXPECT_THAT(out_, HasSubstr("# Out of bounds values : 0 OK"));
  for (const auto& row : results) {
    const auto& times = row.at("in_place");
    EXPECT_EQ(times.at("nwrong"), 0) << row.dump();
    const double us = times.at("time_us"), n = row.at("world");
    EXPECT_GT(us, 0);
    EXPECT_LE(times.at("min"), us);
    EXPECT_LE(us, times.at("p95"));
    EXPECT_LE(times.at("p95"), times.at("max"));
    const double algbw = row.at("size").get<double>() / us * 1e-3;
    EXPECT_NEAR(times.at("alg_bw"), algbw, 1e-9 * algbw);
    const std::string operation = row.at("operation");
    const double factor = operation == "all_reduce"  ? 2 * (n - 1) / n
                          : operation == "broadcast" ? 1
                                                     : (n - 1) / n;
    EXPECT_NEAR(times.at("bus_bw"), factor * algbw, 1e-9 * algbw);
    EXPECT_EQ(row.at("bound_us").is_null(), operation != "all_reduce");
  }
}

TEST_F(BenchComm, SimulatesRanksOfACluster) {
  const auto results =
      results_of({"--cluster", RINGSIDE_CLUSTERS "/dgx-a100.toml", "--worlds", "8", "--sizes",
                  "1KB,1GB", "--algorithms", "ring,recursive-doubling"});
  ASSERT_EQ(results.size(), 4u);
  EXPECT_THAT(out_, HasSubstr("# Out of bounds values : N/A"));
  const auto time = [&](std::size_t row) {
    EXPECT_TRUE(results[row].at("in_place").at("nwrong").is_null());
    return results[row].at("in_place").at("time_us").get<double>();
  };
  EXPECT_LT(time(1), time(0)) << "few steps win where arrays are short";
  EXPECT_LT(time(2), time(3)) << "few bytes win where arrays are long";
}

TEST_F(BenchComm, RefusesWhatItCannotMeasureInOneLine) {
  const auto complaint = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "comm"});
    const testing::Ended ended = run(arguments);
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  EXPECT_THAT(complaint({"--operations", "allreduce"}), HasSubstr("did you mean 'all_reduce'?"));
  EXPECT_THAT(complaint({"--algorithms", "rings"}), HasSubstr("did you mean 'ring'?"));
  EXPECT_THAT(complaint({"--algorithms", "ring,ring"}), HasSubstr("ring is named twice"));
  EXPECT_THAT(complaint({"--worlds", "4294967298"}), HasSubstr("a world has 2 to 64 ranks"));
  EXPECT_THAT(complaint({"--cluster", RINGSIDE_CLUSTERS "/a100-8x8.toml", "--worlds", "12"}),
              HasSubstr("hierarchical needs equally many ranks on every host"));
  EXPECT_THAT(complaint({"--worlds", "1"}), HasSubstr("--worlds 1: a world has 2 to 64 ranks"));
  EXPECT_THAT(complaint({"--operations", "all_gather", "--sizes", "4"}),
              HasSubstr("has at least 8 bytes"));
  EXPECT_THAT(complaint({"--cluster", "nowhere.toml"}), HasSubstr("nowhere.toml"));
}

}  // namespace
}  // namespace ringside
