// `ringside advise` as users start it.
#include <gmock/gmock.h>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AdviseProgram : public ProgramTest {};

TEST_F(AdviseProgram, WritesAnExperimentThatRuns) {
  small_gpt(16, 8, "global_batch = 4\nprecision = \"bf16\"\n");
  const testing::Ended advised =
      run({"advise", "trial.toml", "--cluster", RINGSIDE_CLUSTERS "/rtx-4090-1x8.toml", "--worlds",
           "2", "--explain"});
  ASSERT_EQ(advised.status, 0) << advised.err;
  EXPECT_THAT(advised.out, AllOf(HasSubstr("Advised: "), HasSubstr("efficiency"),
                                 HasSubstr("Run it: ringside compare results/advise/trial.toml")));
  EXPECT_THAT(advised.out, Not(HasSubstr("cannot be run")));
  const testing::Ended compared = run({"compare", "results/advise/trial.toml"});
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("bf16"));
}

TEST_F(AdviseProgram, SaysWhatIsWrongInALine) {
  const auto refusal = [&](const std::vector<std::string>& arguments) {
    const testing::Ended ended = run(arguments);
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(refusal({"advise", "gpt-2", "--batch", "8"}), HasSubstr("gpt2"));
  EXPECT_THAT(refusal({"advise", "gpt2", "--batch", "8"}),
              AllOf(HasSubstr("ringside calibrate"), HasSubstr("--cluster")));
  EXPECT_THAT(refusal({"advise", "gpt2", "--deadline", "3"}), HasSubstr("--samples"));
  EXPECT_THAT(refusal({"advise", "gpt2", "--batch", "8", "--meshes"}),
              HasSubstr("name one with --cluster"));
}

}  // namespace
}  // namespace ringside
