// What `ringside diff` finds between comparisons of this machine, which should be quiet: nothing
// between two of one program, and a scheme that became 5% slower.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/some_text.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

constexpr int tries = 20, regression = 3;

class DiffOfThisMachine : public ::testing::Test {
 protected:
  DiffOfThisMachine() {
    folder_.write("text.txt", testing::some_text(20'000));
    folder_.write("trial.toml", R"(
[model]
kind = "gpt"
layers = 2
heads = 4
width = 64
context = 64
[data]
path = "text.txt"
[train]
steps = 45
warmup = 5
global_batch = 8
[compare]
schemes = ["single", "ddp", "fsdp"]
worlds = [1]
repeats = 15
all_cores = false
)");
  }

  testing::Ended run(std::vector<std::string> arguments, const char* slowed = "") const {
    return testing::Program(RINGSIDE_SLOWED, std::move(arguments), folder_.path(),
                            [slowed] { setenv("RINGSIDE_TEST_SLOWED", slowed, 1); })
        .wait();
  }
  void compare(const std::string& results, const char* slowed = "") const {
    const testing::Ended ended = run({"compare", "trial.toml", "--results", results}, slowed);
    ASSERT_EQ(ended.status, 0) << ended.err;
  }
  testing::Ended diff(int before, int after) const {
    return run({"diff", fmt::format("{}/trial", before), fmt::format("{}/trial", after)});
  }

  testing::TemporaryFolder folder_;
};

TEST_F(DiffOfThisMachine, FindsNothingBetweenTwoComparisonsOfOneProgramIn20Tries) {
  compare("0");
  for (int attempt = 1; attempt <= tries; ++attempt) {
    compare(std::to_string(attempt));
    const testing::Ended found = diff(attempt - 1, attempt);
    EXPECT_EQ(found.status, 0) << "try " << attempt << "\n" << found.out << found.err;
  }
}

TEST_F(DiffOfThisMachine, FindsASchemeThatBecame5PercentSlowerIn20Of20Tries) {
  compare("0");
  for (int attempt = 1; attempt <= tries; ++attempt) {
    compare(std::to_string(attempt), "ddp=0.0526");  // a step takes 1 / 0.95 of its time
    const testing::Ended found = diff(0, attempt);
    EXPECT_EQ(found.status, regression) << "try " << attempt << "\n" << found.out << found.err;
    EXPECT_NE(found.out.find("REGRESSION: ddp at world 1 is "), std::string::npos) << found.out;
    EXPECT_EQ(found.out.find("fsdp at world 1 is"), std::string::npos) << found.out;
  }
}

}  // namespace
}  // namespace ringside
