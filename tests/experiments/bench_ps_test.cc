// `ringside bench ps`, by the program.
#include "tests/experiments/bench_ps.h"
#include <set>

#include "ps/schemes/ps.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST_F(BenchPs, ChecksEveryTransportWithSeveralWorkersAndServers) {
  const auto results =
      results_of({"--workers", "1,2,3", "--servers", "1,2", "--sizes", "8,3MB", "--rounds", "2"});
  std::vector<std::string_view> transports;  // all but auto, which is one of the others
  for (const std::string_view name : names_of(decltype(ps::PsOptions::transport){}))
    if (name != "auto") transports.push_back(name);
  ASSERT_EQ(results.size(), 3 * 2 * 2 * transports.size());
  std::size_t i = 0;
  for (const int workers : {1, 2, 3})
    for (const int servers : {1, 2})
      for (const std::int64_t size : {8, 3 << 20})
        for (const std::string_view transport : transports) {
          const auto& row = results[i++];
          EXPECT_EQ(row.at("operation"), "push_pull");
          EXPECT_EQ(row.at("workers"), workers);
          EXPECT_EQ(row.at("servers"), servers);
          EXPECT_EQ(row.at("size"), size);
          EXPECT_EQ(row.at("count"), size / 4);
          EXPECT_EQ(row.at("transport"), transport);
          EXPECT_EQ(row.at("consistency"), "bsp");
          const auto& times = row.at("in_place");
          EXPECT_EQ(times.at("nwrong"), 0) << row.dump();
          const double us = times.at("time_us");
          EXPECT_GT(us, 0);
          EXPECT_LE(times.at("min"), us);
          EXPECT_LE(us, times.at("p95"));
          EXPECT_LE(times.at("p95"), times.at("max"));
          const double algbw = static_cast<double>(size) / us * 1e-3;
          EXPECT_NEAR(times.at("alg_bw"), algbw, 1e-9 * algbw);
          EXPECT_NEAR(times.at("bus_bw"), 2 * algbw, 1e-9 * algbw);
          for (const char* bound : {"copy", "copy_by_two", "tcp", "unix", "zmq"})
            EXPECT_GT(row.at("bounds_us").at(bound), 0) << bound;
        }
}

TEST_F(BenchPs, ChecksEveryConsistencyWhoseServersAddGradientsUp) {
  std::string all;
  std::size_t count = 0;
  for (const std::string_view name : names_of(ps::Consistency{})) {
    if (name == name_of(ps::Consistency::easgd)) continue;
    all += (all.empty() ? "" : ",") + std::string(name);
    ++count;
  }
  const auto results = results_of({"--workers", "2", "--servers", "2", "--sizes", "4KB,3MB",
                                   "--consistencies", all, "--rounds", "3"});
  std::set<std::string> measured;
  for (const auto& row : results) {
    EXPECT_EQ(row.at("in_place").at("nwrong"), 0) << row.dump();
    measured.insert(row.at("consistency"));
  }
  EXPECT_EQ(measured.size(), count);
}

TEST_F(BenchPs, MeasuresColocatedServers) {
  const auto results =
      results_of({"--workers", "2,3", "--servers", "2", "--sizes", "64KB", "--rounds", "2",
                  "--placement", "colocated", "--threads", "2", "--transports", "tcp"});
  ASSERT_EQ(results.size(), 2u);
  for (const auto& row : results) {
    EXPECT_EQ(row.at("placement"), "colocated");
    EXPECT_EQ(row.at("in_place").at("nwrong"), 0);
  }
}

TEST_F(BenchPs, RefusesWhatItCannotMeasureInOneLine) {
  const auto complaint = [&](const std::vector<std::string>& arguments) {
    const testing::Ended ended = run(bench(arguments));
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, EndsWith("\n"));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(complaint({"--sizes", "3"}), HasSubstr("--sizes 3: an array for 1 server has"));
  EXPECT_THAT(complaint({"--sizes", "7", "--servers", "2"}), HasSubstr("at least 8 bytes"));
  EXPECT_THAT(complaint({"--transports", "tcpp"}), HasSubstr("did you mean 'tcp'?"));
  EXPECT_THAT(complaint({"--transports", "tcp,tcp"}), HasSubstr("tcp is named twice"));
  EXPECT_THAT(complaint({"--consistencies", "bps"}), HasSubstr("did you mean 'bsp'?"));
  EXPECT_THAT(complaint({"--placement", "mixed"}), HasSubstr("take dedicated or colocated"));
  EXPECT_THAT(complaint({"--placement", "colocate"}), HasSubstr("did you mean 'colocated'?"));
  EXPECT_THAT(complaint({"--workers", "0"}), HasSubstr("--workers 0: there are 1 to 64"));
  EXPECT_THAT(complaint({"--servers", "4294967297"}), HasSubstr("there are 1 to 64"));
  EXPECT_THAT(complaint({"--workers", "60", "--servers", "5"}), HasSubstr("more than 64"));
  EXPECT_THAT(complaint({"--servers", "2", "--placement", "colocated"}),
              HasSubstr("--servers 2: with --placement colocated"));
  EXPECT_THAT(complaint({"--json", "no/such/folder.json"}), HasSubstr("no/such/folder.json"));
}

TEST_F(BenchPs, NamesTheRankThatIsKilledAndLeavesNothing) {
  const std::vector<std::string> names = {"worker 0", "server 0"};
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    testing::Program program = start(bench({"--sizes", "4KB", "--rounds", "1000000"}));
    const std::vector<pid_t> children = wait_for_children(program, 4);  // two measure bounds
    ASSERT_EQ(children.size(), 4u);
    ASSERT_TRUE(wait_for_rounds(children[rank]));
    kill(children[rank], SIGKILL);
    const testing::Ended ended = program.wait();
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("bench ps: " + names[rank] + " ended during '"),
                                 HasSubstr("signal 9")));
    expect_gone(children);
  }
}

TEST_F(BenchPs, LeavesNothingWhenItIsInterrupted) {
  testing::Program program = start(bench({"--sizes", "4KB", "--rounds", "1000000"}));
  const std::vector<pid_t> children = wait_for_children(program, 4);
  kill(program.pid(), SIGTERM);
  const testing::Ended ended = program.wait();
  EXPECT_EQ(ended.status, 130);
  EXPECT_EQ(ended.err, "ringside: bench ps: interrupted\n");
  expect_gone(children);
}

}  // namespace
}  // namespace ringside
