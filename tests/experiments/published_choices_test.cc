// Published choices of schemes, and what `advise` answers in their words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/tools/advise/published_choices.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::tools::advise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<PublishedChoice> read(const std::string& text) {
  const testing::TemporaryFolder folder;
  return read_choices(folder.write("choices.toml", text));
}

TEST(PublishedChoices, AreReadFromTheirFile) {
  const auto choices = read(
      "[[choice]]\nquestion = \"which\"\nmodel = \"gpt2\"\ncluster = \"a/../b.toml\"\nbatch = 8\n"
      "worlds = [2]\nset = [\"model.context=64\"]\nadvised = \"ddp, 16 bits\"\n");
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].advised, "ddp, 16 bits");
  EXPECT_TRUE(choices[0].cluster.ends_with("/b.toml")) << choices[0].cluster;
}

TEST(PublishedChoices, ThatAreWrongAreNamed) {
  const auto complaint = [](const std::string& text) {
    return testing::complaint([&] { read("[[choice]]\n" + text); });
  };
  EXPECT_THAT(complaint("modle = \"gpt2\"\n"),
              AllOf(HasSubstr("choices.toml:2"), HasSubstr("did you mean 'model'?")));
  EXPECT_THAT(complaint("model = \"gpt2\"\n"), HasSubstr("needs question, model, cluster"));
  EXPECT_THAT(complaint("question = \"a\"\nmodel = \"gpt2\"\ncluster = \"b\"\nbatch = 8\nadvised = "
                        "\"ddp, 8 bits\"\n"),
              HasSubstr("'8 bits' is none of dp, ddp, fsdp, offload, 16 bits"));
  EXPECT_THAT(complaint("question = \"a\"\nmodel = \"gpt2\"\ncluster = \"b\"\nbatch = 8\n"
                        "contradiction = \"c\"\ncontradicted = [\"ddp\"]\n"),
              HasSubstr("nothing was published as 'ddp'"));
}

/// Every step takes as long as its samples on one device, half of it in 16 bits; whole models have
/// no room on a device.
std::vector<runner::RunOutcome> made_up(const std::vector<RunPlan>& plans, double) {
  std::vector<runner::RunOutcome> out;
  for (const RunPlan& plan : plans) {
    RunRecord& row = out.emplace_back().row;
    row.plan = plan;
    const auto share = static_cast<double>(plan.train.global_batch / plan.world);
    row.time_ms.compute = share * (plan.train.precision == Precision::fp32 ? 2 : 1);
    row.time_ms.exposed = plan.world > 1 ? 0.25 * row.time_ms.compute : 0;
    row.step_ms.median = row.time_ms.compute + row.time_ms.exposed;
    row.samples_per_s = 1e3 * static_cast<double>(plan.train.global_batch) / row.step_ms.median;
    row.ranks.resize(plan.ranks.size());
    for (std::size_t r = 0; r < row.ranks.size(); ++r) row.ranks[r].rank = static_cast<int>(r);
    row.ranks[0].at_peak[MemoryKind::activation] = 1'000'000;
  }
  return out;
}

TEST(PublishedChoices, AreAnsweredInTheirWords) {
  PublishedChoice choice{.question = "GPT-2 1.5B",
                         .model = "gpt2-xl",
                         .cluster = RINGSIDE_CLUSTERS "/rtx-4090-1x8.toml",
                         .batch = 8};
  choice.advised = "fsdp, offload";
  choice.ddp = "impossible";
  choice.fsdp = "good";
  choice.communication = "high";
  choice.contradiction = "24.9 GB of 24";
  choice.contradicted = {"advised"};
  const auto answers = answers_to(choice, made_up, 1);
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].asked, "advised");
  EXPECT_EQ(answers[0].here, "zero1, bf16") << "the first that holds 24.9 GB in parts";
  EXPECT_EQ(runner::agreement_of(answers[0]), runner::Agreement::contradicted);
  EXPECT_THAT(answers[0].reason, HasSubstr("ddp"));
  EXPECT_EQ(answers[1].here.substr(0, 6), "barely") << "with its optimizer on the host";
  EXPECT_EQ(runner::agreement_of(answers[1]), runner::Agreement::open)
      << "the sentence is not about this one";
  EXPECT_EQ(answers[2].here, "good (80%)");
  EXPECT_EQ(runner::agreement_of(answers[2]), runner::Agreement::to_the_digit);
  EXPECT_EQ(answers[3].here, "high (20% of the step)");
}

}  // namespace
}  // namespace ringside::tools::advise
