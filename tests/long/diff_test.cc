// The findings of `ringside diff` between comparisons of this machine, which should be quiet, in 20
// tries: none between two of one program, and a scheme that became 5% slower. Figures of a run vary
// by 2% there; with 25 of them a change is known to 0.7%, so 2.5% lie well between 0 and 5%.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/some_text.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

constexpr int regression = 3;

class DiffOfThisMachine : public ::testing::TestWithParam<int> {
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
schemes = ["single", "ddp"]
worlds = [1]
repeats = 25
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
  testing::Ended diff(const std::string& before, const std::string& after) const {
    return run(
        {"diff", before + "/trial", after + "/trial", "--threshold", "2.5%", "--confidence", "99"});
  }

  testing::TemporaryFolder folder_;
};

TEST_P(DiffOfThisMachine, FindsNothingOfOneProgramAndASchemeThatBecame5PercentSlower) {
  compare("before");
  compare("again");
  compare("slower", "ddp=0.0526");  // a step takes 1 / 0.95 of its time
  const testing::Ended nothing = diff("before", "again");
  EXPECT_EQ(nothing.status, 0) << nothing.out << nothing.err;
  const testing::Ended found = diff("before", "slower");
  EXPECT_EQ(found.status, regression) << found.out << found.err;
  EXPECT_NE(found.out.find("REGRESSION: ddp at world 1 is "), std::string::npos) << found.out;
  // `single` may be named too: it is compared in samples/s, and the machine may have become slower.
}

INSTANTIATE_TEST_SUITE_P(Tries, DiffOfThisMachine, ::testing::Range(1, 21));

}  // namespace
}  // namespace ringside
