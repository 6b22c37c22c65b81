// The real program compares cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

class CaseRuns : public ProgramTest {
 protected:
  CaseRuns() {
    folder_.write("other.txt", testing::some_text(10'000));
    small_gpt(8, 16, R"(steps = 3
warmup = 1
global_batch = 4
micro_batch = 1
[compare]
worlds = [2]
repeats = 1
attempts = 1        # other work on this machine changes nothing here
all_cores = false   # nor do its cores
[compare.sweep]
"scheme.ddp.bucket_mb" = [1, 5]
[[compare.case]]
scheme = "ddp"
[[compare.case]]
scheme = "ps"
label = "one server"
set = { "scheme.ps.servers" = 1, "train.precision" = "bf16" }
[[compare.case]]
scheme = "ps"
label = "other text"
world = 1
set = { "data.path" = "other.txt" }
)");
  }

  std::vector<nlohmann::json> rows() const {
    std::vector<nlohmann::json> out;
    std::istringstream lines(folder_.read("results/trial/rows.jsonl"));
    for (std::string line; std::getline(lines, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
  std::vector<std::string> runs() const {
    std::vector<std::string> out;
    for (const auto& row : rows()) out.push_back(row.at("run"));
    std::sort(out.begin(), out.end());
    return out;
  }
};

TEST_F(CaseRuns, AreMadeAndResumed) {
  const std::vector<std::string> compare = {"compare", "trial.toml", "--case", "dp: train.seed=7"};
  const Ended first = run(compare);
  ASSERT_EQ(first.status, 0) << first.err;
  const auto made = runs();
  EXPECT_THAT(made, IsSupersetOf({"ddp-bucket_mb-1-w2-r0", "ddp-bucket_mb-5-w2-r0",
                                  "one-server-w2-r0", "other-text-w1-r0", "dp-seed-7-w2-r0",
                                  "single-x2-r0", "single-x2-precision-bf16-r0",
                                  "single-x1-path-other-r0", "single-x2-seed-7-r0"}));
  EXPECT_EQ(made.size(), 9u);
  // What a run computed is what its own reference computed.
  const auto all = rows();
  for (const auto& row : all)
    for (const auto& other : all) {
      const bool same = row.at("sum_tree") == other.at("sum_tree") &&
                        row.at("data") == other.at("data") && row.at("seed") == other.at("seed") &&
                        row.at("dtypes") == other.at("dtypes");
      EXPECT_EQ(row.at("parameter_hashes") == other.at("parameter_hashes"), same)
          << row.at("run") << " " << other.at("run");
    }

  std::string half;
  for (std::size_t i = 0; i < all.size(); i += 2) half += all[i].dump() + "\n";
  folder_.write("results/trial/rows.jsonl", half);
  auto again = compare;
  again.push_back("--resume");
  const Ended second = run(again);
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("5 of 9 runs have been made already"));
  EXPECT_EQ(runs(), made);

  const std::filesystem::path other = folder_.path() / "other.txt";
  const auto stamp = std::filesystem::last_write_time(other);
  std::filesystem::last_write_time(other, stamp + std::chrono::seconds(5));
  EXPECT_EQ(run(again).status, 0) << "a copy of the same file";
  std::string text = folder_.read("other.txt");
  text.front() ^= 1;
  folder_.write("other.txt", text);
  std::filesystem::last_write_time(other, stamp);
  EXPECT_THAT(run(again).err, HasSubstr("other.txt has changed since the earlier runs"));
}

TEST_F(CaseRuns, AreThoseThatTheCommandLineLimitsThemTo) {
  const Ended ended = run({"compare", "trial.toml", "--schemes", "ps", "--worlds", "1"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(runs(), ::testing::UnorderedElementsAre("single-x1-r0", "single-x1-precision-bf16-r0",
                                                      "single-x1-path-other-r0", "ps-w1-r0",
                                                      "one-server-w1-r0", "other-text-w1-r0"));
}

TEST_F(CaseRuns, AreRefusedInOneLine) {
  const auto refusal = [&](const std::string& text) {
    const Ended ended = run({"compare", "trial.toml", "--case", text});
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(path("results")));
    return ended.err;
  };
  EXPECT_THAT(refusal("ps: train.steeps=1"), HasSubstr("did you mean 'steps'?"));
  EXPECT_THAT(refusal("ps: model.heads=3"), HasSubstr("heads"));
  EXPECT_THAT(refusal("ps: data.path=absent.txt"), HasSubstr("absent.txt"));
  EXPECT_THAT(run({"train", "trial.toml", "--scheme", "single"}).out, HasSubstr("step 3/3"))
      << "what holds for all cases is trained";
}

}  // namespace
}  // namespace ringside
