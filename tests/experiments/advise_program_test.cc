// `ringside advise` as users start it.
#include <gmock/gmock.h>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
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

/// Devices and hosts that are as small for this GPT as those of 80 and 512 GB are for 70 billion
/// parameters: with 4 samples a step only 4 workers can leave the model whole.
TEST_F(AdviseProgram, ModelsThatFitAsMeshesAlone) {
  experiment(
      "[model]\nlayers = 8\nheads = 2\nwidth = 128\ncontext = 128\n[data]\npath = "
      "\"text.txt\"\n[train]\nglobal_batch = 4\nprecision = \"bf16\"\n");
  folder_.write("small.toml",
                "include = \"" RINGSIDE_CLUSTERS
                "/dgx-a100.toml\"\n[device.small]\nlike = \"a100-sxm-80\"\nmemory_gb = 0.006\n"
                "[device.small-host]\nlike = \"server-cpu\"\nmemory_gb = 0.012\n[cluster]\n"
                "machines = 2\ndevice = \"small\"\nhost = \"small-host\"\n");
  const testing::Ended advised = run({"advise", "trial.toml", "--cluster", "small.toml", "--worlds",
                                      "4,8,16", "--meshes", "--reserve", "0"});
  ASSERT_EQ(advised.status, 0) << advised.err;
  EXPECT_THAT(advised.out,
              ContainsRegex("\\| 1 [^\n]*mesh data [248] x pipeline [248] [^\n]* 16 \\|"))
      << "two dimensions";
  EXPECT_THAT(advised.out,
              ContainsRegex("mesh data 4 x pipeline 2 \\(1f1b\\), bf16, recompute full \\| +8 \\|"))
      << "three dimensions";
  EXPECT_THAT(
      advised.out,
      AllOf(
          HasSubstr(
              "Only meshes fit. Of all ways that leave the model whole, with "
              "recomputation and offload too, the smallest is 'fsdp, bf16, recompute full, offload "
              "optimizer and parameters' at world 4: what the ranks of a machine offload "
              "takes at least "),
          HasSubstr(" of their host's 12.0 MB; a device has 6.0 MB, of which 0 bytes stay "
                    "free; without a pipeline 4 samples do not divide among 8 or 16 "
                    "workers.")));
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
