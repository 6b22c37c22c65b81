// `ringside schedule` shows schedules by name and from files, and refuses wrong ones in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <set>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ScheduleProgram : public ProgramTest {
 protected:
  std::string shown(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"schedule", "show"});
    const testing::Ended ended = run(arguments);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended.out;
  }
  std::string refusal(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "schedule");
    const testing::Ended ended = run(arguments);
    EXPECT_EQ(ended.status, 2) << ended.out;
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    return ended.err;
  }
};

TEST_F(ScheduleProgram, ShowsPictureBubbleAndActivationsBesideTheFormulas) {
  EXPECT_THAT(
      shown({"zb_h1", "--stages", "4", "--micro-batches", "8"}),
      AllOf(HasSubstr("zb_h1: 4 ranks, 4 stages, 8 micro-batches\n"),
            HasSubstr("\nrank 3          F0 I0 F1 I1 F2 I2 F3 I3 W0"), HasSubstr("step: 27 s\n"),
            HasSubstr("bubble: 0.125 of the compute of a rank, 11.1% of the step; by the "
                      "formula 0.125\n"),
            HasSubstr("rank: 3 s; by the formula 3 s\n"), HasSubstr("sends: 48\n")));
  EXPECT_THAT(shown({"Interleaved1F1B", "--stages", "8", "--chunks", "2", "--f", "2"}),
              AllOf(HasSubstr("interleaved: 4 ranks, 8 stages"),
                    HasSubstr("bubble: 0.1875 of the compute of a rank, 15.8% of the step; by the "
                              "formula 0.1875\n")));
  EXPECT_THAT(shown({"zb_v", "--b", "2"}),
              AllOf(HasSubstr("zb_v: 2 ranks, 4 stages"),
                    HasSubstr("; its paper has no formula for this case\n")));
}

TEST_F(ScheduleProgram, SendsThatTakeTimeMakeTheStepLonger) {
  EXPECT_THAT(shown({"gpipe", "--stages", "2", "--micro-batches", "1", "--send", "0.5"}),
              AllOf(HasSubstr("step: 7 s\n"), HasSubstr("if sends took no time"),
                    HasSubstr("critical path: 4 actions, 6 s of compute and 1 s of sends\n")));
}

TEST_F(ScheduleProgram, WritesFilesThatItReads) {
  const std::string made = shown({"1f1b", "--csv", "mine.csv", "--svg", "mine.svg"});
  EXPECT_THAT(folder_.read("mine.csv"), HasSubstr("0F0,0SEND_F0,0F1,0SEND_F1,"));
  EXPECT_THAT(folder_.read("mine.svg"), HasSubstr("</svg>\n"));
  const std::string read = shown({"mine.csv"});
  EXPECT_THAT(read, AllOf(HasSubstr("mine: 4 ranks, 4 stages, 8 micro-batches\n"),
                          Not(HasSubstr("formula"))));
  EXPECT_EQ(read.substr(read.find("\nrank"), 300), made.substr(made.find("\nrank"), 300));
  const testing::Ended checked = run({"schedule", "check", "mine.csv"});
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("mine.csv: 4 ranks, 4 stages, 8 micro-batches, 48 sends: "));
  EXPECT_THAT(checked.out, HasSubstr("a stage holds at most 4 micro-batches at a time\n"));
  EXPECT_EQ(run({"schedule", "check", "mine.csv", "--most-in-flight", "4"}).out, checked.out);
  EXPECT_THAT(refusal({"check", "mine.csv", "--most-in-flight", "3"}),
              HasSubstr("mine.csv: row 1: stage 0 on rank 0 holds activations of 4 micro-batches"));
}

TEST_F(ScheduleProgram, RefusesWhatIsWrongInOneLine) {
  folder_.write("swapped.csv", "0F0,0F1,0B1,0B0\n1F0,1F1,1B0,1B1\n");
  folder_.write("broken.csv", "0F0,0B0\n1F0,1BB0\n");
  EXPECT_THAT(
      refusal({"check", "swapped.csv"}),
      HasSubstr("swapped.csv: row 1, cell 3: rank 0, stage 0: B of micro-batch 1 comes before "
                "0B0"));
  EXPECT_THAT(refusal({"show", "swapped.csv"}), HasSubstr("swapped.csv: row 1, cell 3: rank 0"));
  EXPECT_THAT(refusal({"check", "broken.csv"}), HasSubstr("broken.csv: row 2, cell 2: '1BB0'"));
  EXPECT_THAT(refusal({"check", "nowhere.csv"}), HasSubstr("nowhere.csv: there is no such file"));
  EXPECT_THAT(refusal({"show", "1f2b"}), HasSubstr("did you mean '1f1b'?"));
  EXPECT_THAT(refusal({"show", "zb_v", "--stages", "5"}),
              HasSubstr("5 stages cannot be dealt out to ranks with 2 each"));
  EXPECT_THAT(refusal({"show", "1f1b", "--chunks", "2"}), HasSubstr("a rank has one stage, not 2"));
  EXPECT_THAT(refusal({"show", "swapped.csv", "--stages", "2"}), HasSubstr("leave --stages"));
  EXPECT_THAT(refusal({"show", "1f1b", "--w", "nan"}), HasSubstr("--w"));
  EXPECT_THAT(refusal({"show", "1f1b", "--svg", "no/where.svg"}), HasSubstr("--svg no/where.svg"));
}

/// A schedule of two ranks and two micro-batches that no run may have, and what is wrong with it.
struct WrongSchedule {
  const char* name;
  const char* text;
  const char* says;
};

void PrintTo(const WrongSchedule& one, std::ostream* out) { *out << one.name; }

class WrongSchedules : public ProgramTest, public ::testing::WithParamInterface<WrongSchedule> {
 protected:
  std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
      out.insert(entry.path().string());
    return out;
  }
};

TEST_P(WrongSchedules, AreNamedBeforeARunBegins) {
  folder_.write("mine.csv", GetParam().text);
  small_gpt(16, 8,
            "steps = 2\nwarmup = 1\nglobal_batch = 4\nmicro_batch = 2\n[mesh]\npipeline = 2\n"
            "[pipeline]\nschedule = \"mine.csv\"\n");
  const std::set<std::string> before = files();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "trial.toml", "--scheme", "ddp", "--world", "2",
                                 "--output", "row.json"},
        {"compare", "trial.toml", "--schemes", "ddp", "--worlds", "2"}}) {
    const testing::Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << ended.out;
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_THAT(ended.err,
                AllOf(HasSubstr("pipeline.schedule: " + path("mine.csv").string() + ": "),
                      HasSubstr(GetParam().says), HasSubstr("; ")));
  }
  EXPECT_EQ(files(), before) << "nothing is written";
  const testing::Ended checked = run({"schedule", "check", "mine.csv"});
  EXPECT_EQ(checked.status, 2);
  EXPECT_THAT(checked.err, AllOf(HasSubstr("mine.csv: "), HasSubstr(GetParam().says)));
}

TEST_F(ScheduleProgram, FilesThatCannotBeReadAreNamedBeforeARunBegins) {
  small_gpt(16, 8,
            "steps = 2\nwarmup = 1\nglobal_batch = 4\nmicro_batch = 2\n[mesh]\npipeline = 2\n"
            "[pipeline]\nschedule = \"mine.csv\"\n");
  const auto refused = [&] {
    const std::string err = refusal_at("ddp", "2", {});
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    return err;
  };
  const std::string file = "pipeline.schedule: " + path("mine.csv").string();
  EXPECT_THAT(refused(), HasSubstr(file + ": there is no such file; give the path of a CSV file"));
  std::filesystem::create_directory(path("mine.csv"));
  EXPECT_THAT(refused(), HasSubstr(file + ": it is a directory; give the path of a CSV file"));
  std::filesystem::remove(path("mine.csv"));
  folder_.write("mine.csv", "");
  std::filesystem::resize_file(path("mine.csv"), (std::uintmax_t{32} << 20) + 1);
  EXPECT_THAT(refused(), HasSubstr(file + ": it has more than 33554432 bytes, and is no schedule"));
}

TEST_F(ScheduleProgram, TakesFilesOfOtherSystems) {
  small_gpt(16, 8,
            "steps = 2\nwarmup = 1\nglobal_batch = 4\nmicro_batch = 2\n[mesh]\npipeline = 2\n"
            "[pipeline]\nschedule = \"mine.csv\"\n");
  folder_.write("mine.csv",
                "\xef\xbb\xbf"
                "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n");
  const testing::Ended ended = run({"train", "trial.toml", "--scheme", "ddp", "--world", "2"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("1 x pipeline 2"));
}

INSTANTIATE_TEST_SUITE_P(
    Of, WrongSchedules,
    ::testing::Values(
        WrongSchedule{"no_action", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1X1\n",
                      "row 2, cell 4: '1X1' is no action; write stage"},
        WrongSchedule{"empty", "", "it has no actions; write a row of cells"},
        WrongSchedule{"utf16", "\xff\xfe\x30", "it is in UTF-16"},
        WrongSchedule{"dropped_w", "0F0,0I0,0W0,0F1,0I1\n1F0,1I0,1W0,1F1,1I1,1W1\n",
                      "row 1: rank 0, stage 0: W of micro-batch 1 is missing; add it"},
        WrongSchedule{"swapped_micro_batch", "0F0,0F1,0B0,0B1\n1F0,1F1,1B1,1B0\n",
                      "row 2, cell 3: rank 1, stage 1: B of micro-batch 1 comes before 1B0"},
        WrongSchedule{"stale_activation", "0F0,0F1,0B0,0B1\n1F0,1B0,1B1,1F1\n",
                      "row 2, cell 3: rank 1, stage 1: B of micro-batch 1 comes before 1F1"},
        WrongSchedule{"forward_twice", "0F0,0F1,0B0,0B1\n1F0,1B0,1F0,1F1,1B1\n",
                      "row 2, cell 3: rank 1, stage 1: F of micro-batch 0 is there twice"},
        WrongSchedule{"receives_out_of_order",
                      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                      "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
                      "row 2, cell 1: rank 1, stage 1: RECV_F of micro-batch 1 comes before "
                      "1RECV_F0"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ringside
