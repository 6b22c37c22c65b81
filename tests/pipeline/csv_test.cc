// Schedules as CSV files: those that are written here, those of PyTorch, and broken ones.
#include "core/pipeline/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/whole_file.h"
#include "tests/pipeline/made_schedules.h"
#include "tests/support/complaint.h"

namespace ringside::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  try {
    checked_csv(text, "mine.csv", "mine");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Csv, RoundTripsAreExact) {
  for (const MadeSchedule& made : made_schedules()) {
    EXPECT_EQ(parse_csv(to_csv(made.schedule), "x", made.schedule.name), made.schedule)
        << made.label();
    const Schedule complete = with_sends(made.schedule);
    EXPECT_EQ(parse_csv(to_csv(complete), "x", complete.name), complete) << made.label();
  }
}

TEST(Csv, WrittenTextIsThatOfPyTorch) {
  EXPECT_EQ(to_csv(find_maker("1f1b").make(2, 1, 2)), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  // A receive stands before the action that comes before the one that needs it.
  EXPECT_EQ(to_csv(with_sends(find_maker("gpipe").make(2, 1, 2))),
            "0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0RECV_B1,0B0,0B1\n"
            "1RECV_F0,1RECV_F1,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n");
}

TEST(Csv, ReadsBothFormsOfPyTorch) {
  // compute_only, with empty cells for time steps in which a rank waits, and lines of Windows
  const Schedule plain = parse_csv("0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,\r\n", "x", "plain");
  EXPECT_EQ(plain.ranks_of, (std::vector{0, 1}));
  EXPECT_EQ(plain.micro_batches, 2);
  EXPECT_EQ(plain.actions[0], (std::vector<Action>{{0, F, 0}, {0, F, 1}, {0, B, 0}, {0, B, 1}}));
  check(plain);
  // compute_comms, with what schemes do by themselves
  const Schedule lowered = parse_csv(
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0RESHARD,0REDUCE_GRAD\n"
      "1UNSHARD, 1RECV_F0 ,1F0,1I0,1SEND_B0,1W0,1RESHARD,1REDUCE_GRAD",
      "x", "lowered");
  EXPECT_EQ(lowered.actions[1],
            (std::vector<Action>{{1, recv_f, 0}, {1, F, 0}, {1, I, 0}, {1, send_b, 0}, {1, W, 0}}));
  check(lowered);
}

TEST(Csv, StagesAreOnTheRanksOfTheirRows) {
  const Schedule schedule = parse_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "x", "v");
  EXPECT_EQ(schedule.ranks_of, (std::vector{0, 1, 1, 0}));
  check(schedule);
}

TEST(Csv, RefusalsNameFileRowAndCell) {
  EXPECT_THAT(refusal("0F0,0B0\n1F0,1X0\n"),
              AllOf(HasSubstr("mine.csv: row 2, cell 2: '1X0' is no action; write stage"),
                    HasSubstr("SEND_F")));
  for (const char* word : {"F0", "0f0", "0F0x", "-1F0", "0F-1", "0F0.5", "(0F0;1B0)OVERLAP_F_B",
                           "0FB0", "0", "0 F0", "\"0F0\"", "0SEND0", "UNSHARD", "0F\x01", "0F\xff"})
    EXPECT_THAT(refusal(std::string("0F0,") + word), HasSubstr("mine.csv: row 1, cell 2: "))
        << word;
  EXPECT_THAT(refusal("0F"), HasSubstr("row 1, cell 1: '0F' has no micro-batch"));
  EXPECT_THAT(refusal("0F0,0B0\n0F1,0B1\n"), HasSubstr("'0F1' is of a stage that row 1 has"));
  EXPECT_THAT(refusal("0F0,0B0\n2F0,2B0\n"), HasSubstr("no row has stage 1"));
}

/// A faulty text, and what is said of it.
struct Faulty {
  const char* text;
  const char* says;
};

/// One line: file, row and cell, cause, what to do. Cells that are skipped count.
TEST(Csv, RefusalsOfWrongSchedulesNameFileRowCellCauseAndRemedy) {
  for (const Faulty& one : {
           Faulty{"0F0,0B0\n1F0,,1UNSHARD,1B0,1B0\n",
                  "mine.csv: row 2, cell 5: rank 1, stage 1: B of micro-batch 0 is there twice; "
                  "leave one out"},
           Faulty{"0F0,0B0\n1B0,1F0\n",
                  "mine.csv: row 2, cell 1: rank 1, stage 1: B of micro-batch 0 comes before 1F0, "
                  "which it needs; put it behind that"},
           Faulty{"0F0,0F1,0B0,0B1\n1F0,1F1,1B1,1B0\n",
                  "mine.csv: row 2, cell 3: rank 1, stage 1: B of micro-batch 1 comes before 1B0: "
                  "gradients add up in ascending order of micro-batches; put it behind that"},
           Faulty{"0F0,0I0\n1F0,1B0\n",
                  "mine.csv: row 1: rank 0, stage 0: W of micro-batch 0 is missing; add it"},
           Faulty{
               "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n",
               "mine.csv: row 2: rank 1, stage 1: SEND_B of micro-batch 0 is missing; add it, or "
               "leave all sends and receives out"},
           Faulty{"0F0,0B0\n\n1F0,1B0\n",
                  "mine.csv: row 2: rank 1 has no stage; give it one, or leave the rank out"},
           Faulty{"2F0,0F0,2B0,0B0\n1F0,3F0,3B0,1B0\n",
                  "mine.csv: row 1, cell 1: ranks wait for each other in a circle: rank 0 waits "
                  "with 2F0 for rank 1, rank 1 waits with 1F0 for rank 0; let one of them do "
                  "something else first"},
           Faulty{
               "0F0,0B0\n0F1,0B1\n",
               "mine.csv: row 2, cell 1: '0F1' is of a stage that row 1 has; give all actions of "
               "a stage to one row"},
           Faulty{"0F,0B0\n",
                  "mine.csv: row 1, cell 1: '0F' has no micro-batch; write its number behind the "
                  "operation, as in 2F0"},
           Faulty{"0F0,0B0\n2F0,2B0\n",
                  "mine.csv: no row has stage 1, but there is a stage 2; number stages from 0 on, "
                  "without gaps"},
           Faulty{
               "0F9,0B9\n",
               "mine.csv: it has 2 actions, too few for F of 10 micro-batches in 1 stage; number "
               "micro-batches and stages from 0 on, without gaps"},
       })
    EXPECT_EQ(refusal(one.text), one.says);
  EXPECT_THAT(
      refusal("0F0,what\n"),
      AllOf(HasSubstr("mine.csv: row 1, cell 2: 'what' is no action; write stage, operation "
                      "and micro-batch, as in 2F0"),
            HasSubstr("F, B, I, W")));
  const auto held = [](std::int64_t most) {
    return testing::complaint([&] { checked_csv("0F0,0F1,0B0,0B1\n", "mine.csv", "mine", most); });
  };
  EXPECT_EQ(held(2), "nothing");
  EXPECT_EQ(
      held(1),
      "mine.csv: row 1: stage 0 on rank 0 holds activations of 2 micro-batches at a time, but "
      "1 is allowed (pipeline.most_in_flight, --most-in-flight); allow more, or choose a "
      "schedule that holds fewer");
}

TEST(Csv, TakesMarksAndLineEndsOfOtherSystems) {
  const Schedule plain = parse_csv("0F0,0B0\n1F0,1B0\n", "x", "plain");
  for (const char* text : {"\xef\xbb\xbf"
                           "0F0,0B0\n1F0,1B0\n",
                           "0F0,0B0\r\n1F0,1B0\r\n",
                           "\xef\xbb\xbf"
                           "0F0,0B0\r\n1F0,1B0",
                           "0F0,0B0\n1F0,1B0\r\n\r\n"})
    EXPECT_EQ(checked_csv(text, "x", "plain"), plain) << text;
  for (const char* text : {"\xff\xfe"
                           "0",
                           "\xfe\xff"
                           "0"})
    EXPECT_EQ(refusal(text),
              "mine.csv: it is in UTF-16, as its byte-order mark says; save it as UTF-8");
  EXPECT_THAT(refusal("\xef\xbb\xbf"), HasSubstr("mine.csv: it has no actions; write a row"));
}

TEST(Csv, RefusesNumbersOutOfRange) {
  for (const char* cell : {"1048576F0", "0F1048576", "0F99999999999999999999999999",
                           "99999999999999999999F0", "0F18446744073709551616"})
    EXPECT_THAT(refusal(cell), HasSubstr("has a number that is not less than 1048576")) << cell;
  EXPECT_THAT(refusal("1048575F0"), HasSubstr("no row has stage 0"));
  EXPECT_THAT(refusal("0F1048575,0B1048575"), HasSubstr("too few for F of 1048576 micro-batches"));
}

TEST(Csv, RefusesTooManyActions) {
  std::string text;
  for (int i = 0; i <= most_actions; ++i) text += "0F0,";
  EXPECT_THAT(refusal(text), HasSubstr("row 1, cell 1048577: '0F0' is one action too many"));
}

TEST(Csv, RefusesTextsWithoutActions) {
  for (const char* text : {"", "\n", " \r\n\t\n", ",,,\n,,\n", "0UNSHARD\n"})
    EXPECT_THAT(refusal(text), HasSubstr("mine.csv: it has no actions")) << text;
  EXPECT_THAT(refusal("0F0,0B0\n\n1F0,1B0\n"), HasSubstr("rank 1 has no stage"));
}

/// Every beginning of a file is refused, or is all of it.
TEST(Csv, RefusesWhatIsCutOff) {
  const std::string text = to_csv(with_sends(find_maker("zb_v").make(3, 2, 5)));
  for (std::size_t size = 0; size + 1 < text.size(); ++size)
    EXPECT_NE(refusal(text.substr(0, size)), "") << size;
  EXPECT_EQ(refusal(text), "");
  EXPECT_EQ(refusal(text.substr(0, text.size() - 1)), "") << "the last end of line is not needed";
}

/// A changed byte leads to an error in one line, or leaves a schedule that passes the check.
TEST(Csv, LivesThroughEveryChangedByte) {
  const std::string text = to_csv(with_sends(find_maker("1f1b").make(2, 1, 3)));
  for (std::size_t at = 0; at < text.size(); ++at)
    for (const char byte : {'\0', ',', '\n', '9', 'F', '\xff', ' ', '_'}) {
      std::string broken = text;
      broken[at] = byte;
      EXPECT_EQ(refusal(broken).find('\n'), std::string::npos) << at;
    }
}

TEST(Csv, FilesAreReadAndChecked) {
  const std::string folder = ::testing::TempDir();
  const std::string file = folder + "csv_test_schedule.csv";
  write_whole(file, "0F0,0B0\n");
  EXPECT_EQ(read_csv(file).name, "csv_test_schedule");
  write_whole(file, "0B0,0F0\n");
  EXPECT_THROW(read_csv(file), Error);
  std::filesystem::remove(file);
  const auto error = [](const std::string& name) -> std::string {
    try {
      read_csv(name);
      return "";
    } catch (const Error& found) {
      return found.what();
    }
  };
  EXPECT_THAT(error(file), HasSubstr("there is no such file"));
  EXPECT_EQ(error(folder),
            folder + ": it is a directory; give the path of a CSV file with a row for each rank");
  EXPECT_THAT(error("/dev/zero"), HasSubstr("/dev/zero: it is no file; give the path"));
  write_whole(file, "");
  EXPECT_THAT(error(file), AllOf(HasSubstr(file + ": it has no actions; write a row of cells"),
                                 HasSubstr("ringside schedule show 1f1b --csv FILE")));
  std::filesystem::resize_file(file, most_csv_bytes + 1);
  EXPECT_THAT(error(file),
              HasSubstr(file + ": it has more than 33554432 bytes, and is no schedule; "
                               "give the path of a CSV file"));
  write_whole(file, std::string(most_csv_bytes, 'x'));  // one cell, of which an error shows a part
  EXPECT_THAT(error(file),
              AllOf(HasSubstr("row 1, cell 1: 'xxxxxxxxxx"), HasSubstr("xxx...' is no")));
  EXPECT_LT(error(file).size(), 400U);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace ringside::pipeline
