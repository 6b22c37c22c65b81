// `ringside bench comm` when ranks fail, and beside other libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/module.h"
#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class BenchBeside : public ProgramTest {
 protected:
  static std::vector<std::string> beside(const std::string& what,
                                         const std::string& sizes = "4KB") {
    return {"bench", "comm", "--rounds", "1", "--sizes", sizes, "--beside", what};
  }
  static std::string made_up(const std::string& mode) {
    return "madeup=" RINGSIDE_BENCH_DRIVER " " + mode;
  }
  /// The one line with which the program fails.
  std::string complaint(const std::vector<std::string>& arguments, int status = 1) {
    const testing::Ended ended = run(arguments);
    EXPECT_EQ(ended.status, status) << ended.out;
    EXPECT_THAT(ended.err, EndsWith("\n"));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    return ended.err;
  }
  nlohmann::json results() {
    std::ifstream in(path("figures.json"));
    return nlohmann::json::parse(in).at("results");
  }
};

TEST_F(BenchBeside, GivesAnotherLibraryItsLineAndARatio) {
  auto arguments = beside(made_up("works") + "," + "other=" RINGSIDE_BENCH_DRIVER " works");
  arguments.insert(arguments.end(), {"--worlds", "3", "--json", "figures.json"});
  const testing::Ended ended = run(arguments);
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("\nall_reduce     madeup "), HasSubstr("\nall_reduce     other "),
                    HasSubstr("ratio = time / that of native."),
                    HasSubstr("# Out of bounds values : 0 OK")));
  const auto rows = results();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].at("communicator"), "shm");
  EXPECT_EQ(rows[0].at("algorithm"), "native");
  EXPECT_TRUE(rows[0].at("ratio").is_null());
  const double ours = rows[0].at("in_place").at("p50");
  for (const std::size_t i : {1u, 2u}) {
    EXPECT_EQ(rows[i].at("communicator"), i == 1 ? "madeup" : "other");
    EXPECT_TRUE(rows[i].at("algorithm").is_null());
    EXPECT_EQ(rows[i].at("in_place").at("nwrong"), 0);
    EXPECT_DOUBLE_EQ(rows[i].at("ratio"), rows[i].at("in_place").at("p50").get<double>() / ours);
  }
}

TEST_F(BenchBeside, CountsWhatAnotherLibraryGetsWrong) {
  auto arguments = beside(made_up("errs"));
  arguments.insert(arguments.end(), {"--json", "figures.json"});
  const testing::Ended ended = run(arguments);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out, HasSubstr("# Out of bounds values : 2 FAILED"));
  EXPECT_EQ(results()[0].at("in_place").at("nwrong"), 0);
  EXPECT_EQ(results()[1].at("in_place").at("nwrong"), 2) << "after the warm-up and at the end";
}

TEST_F(BenchBeside, SaysWhyAnotherLibraryFails) {
  EXPECT_THAT(
      complaint(beside(made_up("dies"))),
      AllOf(HasSubstr("madeup: rank 1 ended during 'turn its-own 11': "), HasSubstr("137")));
  EXPECT_THAT(complaint(beside(made_up("complains"))), HasSubstr("madeup: rank 1: no memory"));
  EXPECT_THAT(complaint(beside(made_up("refuses"))),
              HasSubstr("madeup does not start: no licence\n"));
  EXPECT_THAT(complaint(beside("gone=./gone x")),
              HasSubstr("gone does not start: ./gone: No such file or directory\n"));
}

TEST_F(BenchBeside, RefusesWhatItCannotRun) {
  EXPECT_THAT(complaint(beside("openmp"), 2), HasSubstr("did you mean 'openmpi'?"));
  EXPECT_THAT(complaint(beside("a=./x,a=./y"), 2), HasSubstr("a is named twice"));
  EXPECT_THAT(complaint(beside("a="), 2), HasSubstr("NAME=COMMAND"));
  auto on_gpus = beside(made_up("works"));
  on_gpus.insert(on_gpus.end(), {"--device", "cuda"});
  EXPECT_THAT(complaint(on_gpus, 2), HasSubstr("not on GPUs"));
  EXPECT_THAT(complaint({"bench", "comm", "--device", "tpu"}, 2), HasSubstr("choose cpu or cuda"));
  EXPECT_THAT(complaint({"bench", "comm", "--device", "cuda", "--algorithms", "ring"}, 2),
              HasSubstr("NCCL has algorithms of its own"));
}

TEST_F(BenchBeside, LeavesNothingWhenItIsInterrupted) {
  testing::Program program = start(beside(made_up("litters"), "4KB,8KB"));
  ASSERT_TRUE(program.wait_for("all_reduce     madeup"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(path("litter.txt"))) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the driver has not started";
    std::this_thread::yield();
  }
  std::string folder;
  pid_t left = 0;
  std::ifstream(path("litter.txt")) >> folder >> left;
  EXPECT_TRUE(std::filesystem::exists(folder + "/litter"));
  EXPECT_EQ(kill(left, 0), 0);
  kill(program.pid(), SIGTERM);
  const testing::Ended ended = program.wait();
  EXPECT_EQ(ended.status, 130);
  EXPECT_EQ(ended.err, "ringside: bench comm: interrupted\n");
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(kill(left, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(BenchBeside, ARankOfOursThatIsKilledEndsTheBenchAtOnce) {
  std::string sizes = "1KB";  // the first row comes at once, and the others take minutes
  for (int i = 0; i < 100; ++i) sizes += ",16MB";
  testing::Program program = start({"bench", "comm", "--worlds", "3", "--sizes", sizes});
  ASSERT_TRUE(program.wait_for("all_reduce     native"));
  const std::vector<pid_t> ranks = program.children();
  ASSERT_EQ(ranks.size(), 3u);
  kill(ranks[1], SIGKILL);
  const testing::Ended ended = program.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, AllOf(StartsWith("ringside: bench comm: shm: rank 1 ended during '"),
                               EndsWith("': signal 9 (Killed)\n")));
  for (const pid_t rank : ranks) EXPECT_EQ(kill(rank, 0), -1);
}

class BenchBesideLibrary : public BenchBeside, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Libraries, BenchBesideLibrary,
                         ::testing::Values("openmpi", "mpich", "gloo"),
                         [](const auto& library) { return std::string(library.param); });

TEST_P(BenchBesideLibrary, HasRightResultsOfAllOperations) {
  const std::string library = GetParam();
  if (!has_module("ringside_" + library)) GTEST_SKIP() << library << " was not there at the build";
  auto arguments = beside(library, "96");
  arguments.insert(arguments.end(),
                   {"--operations", "all_reduce,reduce_scatter,all_gather,broadcast,all_to_all",
                    "--json", "figures.json"});
  const testing::Ended ended = run(arguments);
  ASSERT_EQ(ended.status, 0) << ended.err << ended.out;
  const auto rows = results();
  ASSERT_EQ(rows.size(), 10u);
  for (std::size_t i = 1; i < rows.size(); i += 2) {
    EXPECT_EQ(rows[i].at("communicator"), library);
    EXPECT_EQ(rows[i].at("in_place").at("nwrong"), 0) << rows[i].dump();
    EXPECT_GT(rows[i].at("ratio"), 0);
  }
}

}  // namespace
}  // namespace ringside
