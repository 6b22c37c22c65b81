// ringside trace
#include <gmock/gmock.h>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TraceCommand : public ProgramTest {
 protected:
  void SetUp() override {
    small_gpt(16, 8,
              "steps = 3\nwarmup = 1\nglobal_batch = 4\n[compare]\nschemes = [\"single\", "
              "\"ddp\", \"ps\"]\nworlds = [2]\nattempts = 1\nrepeats = 2\nall_cores = false\n");
    ASSERT_EQ(run({"compare", "trial.toml"}).status, 0);
  }
};

TEST_F(TraceCommand, WritesWhatWasAskedForOrSaysWhyNot) {
  const testing::Ended place = run({"trace", "results/trial", "ddp"});
  EXPECT_EQ(place.status, 0) << place.err;
  EXPECT_EQ(place.out, "results/trial/traces/ddp-w2-r0.json: open it in ui.perfetto.dev\n");

  const testing::Ended many = run({"trace", "results/trial"});
  EXPECT_NE(many.status, 0);
  EXPECT_THAT(many.err,
              AllOf(HasSubstr("name one: "), HasSubstr("ddp-w2-r0"), HasSubstr("ps-w2-r0")));
  EXPECT_THAT(run({"trace", "results/trial", "dpp"}).err,
              HasSubstr("no run of results/trial is called dpp; its runs are "));
  EXPECT_NE(run({"trace", "results/nowhere"}).status, 0);

  const testing::Ended chakra = run({"trace", "results/trial", "ddp", "--chakra", "et"});
  if (chakra.err.find("install libprotobuf-dev") != std::string::npos)
    GTEST_SKIP() << "the program was built without protobuf";
  EXPECT_EQ(chakra.status, 0) << chakra.err;
  EXPECT_THAT(chakra.out, HasSubstr("operations of 2 ranks"));
  for (const char* file : {"ddp-w2-r0.0.et", "ddp-w2-r0.1.et", "ddp-w2-r0.groups.json"})
    EXPECT_TRUE(std::filesystem::exists(path("et") / file)) << file;

  const testing::Ended refused = run({"trace", "results/trial", "ps", "--chakra", "et"});
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("which is no collective"));
  EXPECT_FALSE(std::filesystem::exists(path("et/ps-w2-r0.0.et")));
}

}  // namespace
}  // namespace ringside
