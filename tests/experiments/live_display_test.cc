#include "experiments/tools/watch/display.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "experiments/runner/report/text_table.h"
#include "experiments/tools/watch/live_text.h"
#include "tests/experiments/told_events.h"

namespace ringside::tools::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedComparison;
using ::testing::StartsWith;

/// A terminal as far as displays use it: what is on its screen after some output.
class Screen {
 public:
  Screen(int columns, int rows)
      : columns_(static_cast<std::size_t>(columns)), rows_(static_cast<std::size_t>(rows)) {}

  void write(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') {
        column_ = 0;
      } else if (text[i] == '\n') {
        column_ = 0;
        next_row();
      } else if (text[i] == '\x1b') {
        std::size_t end = i + 2;  // behind the bracket
        while (std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
        control(text[end], end > i + 2 ? std::stoul(text.substr(i + 2)) : 1);
        i = end;
      } else {
        put(text[i]);
      }
    }
  }

  /// The lines of the screen, without blanks at their ends and without empty lines below.
  std::vector<std::string> lines() const {
    std::vector<std::string> out = screen_;
    for (std::string& line : out)
      while (line.ends_with(' ')) line.pop_back();
    while (!out.empty() && out.back().empty()) out.pop_back();
    return out;
  }
  bool cursor_is_at_the_beginning() const { return column_ == 0; }

 private:
  void next_row() {
    if (++row_ < rows_) return;
    row_ = rows_ - 1;
    screen_.resize(rows_);
    screen_.erase(screen_.begin());
  }
  void put(char c) {
    if (column_ == columns_) {
      column_ = 0;
      next_row();
    }
    screen_.resize(rows_);
    screen_[row_].resize(std::max(screen_[row_].size(), column_ + 1), ' ');
    screen_[row_][column_++] = c;
  }
  void control(char what, std::size_t count) {
    screen_.resize(rows_);
    if (what == 'A') {
      row_ -= std::min(row_, count);
    } else if (what == 'K') {
      screen_[row_].resize(std::min(screen_[row_].size(), column_));
    } else if (what == 'J') {
      screen_[row_].resize(std::min(screen_[row_].size(), column_));
      for (std::size_t below = row_ + 1; below < rows_; ++below) screen_[below].clear();
    } else {
      ADD_FAILURE() << "unknown control: " << what;
    }
  }

  std::size_t columns_, rows_, row_ = 0, column_ = 0;
  std::vector<std::string> screen_;
};

class Displaying : public ::testing::Test {
 protected:
  /// What has been printed since the last call.
  std::string printed() {
    std::string out = out_.str();
    out_.str("");
    return out;
  }
  /// The screen of a terminal of the size that size_ has now.
  Screen screen() const { return {size_.columns, size_.rows}; }

  TerminalSize size_;
  std::ostringstream out_;
  ProgressDisplay display_{out_, [this] { return size_; }};
  ScriptedComparison comparison_{{&display_}};
};

TEST_F(Displaying, PlainLinesComeEveryTwoSecondsAndAtTheEnd) {
  comparison_.begin();
  comparison_.make(0, 4);
  const std::string text = printed();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_THAT(text, Not(HasSubstr("step 1/6")));
  EXPECT_THAT(text,
              HasSubstr("[1/3] single world 1 repeat 0  step 2/6  16 s left  4.0 samples/s  loss "
                        "2.5000\n"));
  EXPECT_THAT(text, HasSubstr("step 4/6  14 s left  4.0 samples/s  loss 2.0000\n"));
  EXPECT_THAT(text, HasSubstr("4.0 samples/s  step 500.0 ms  loss 1.5000\n"));
  for (const char* moving : {"\r", "\x1b"}) EXPECT_THAT(text, Not(HasSubstr(moving)));
}

TEST_F(Displaying, ATerminalHasATableThatFillsInBelowTheRunsThatHaveEnded) {
  size_ = {80, 24};
  Screen screen = this->screen();
  comparison_.begin();
  comparison_.feed.begin_run(0, 1);
  screen.write(printed());
  EXPECT_THAT(screen.lines(),
              ElementsAre("case    world  runs  samples/s  step ms  loss  peak MB  state",
                          "single      1   0/1" + std::string(37, ' ') + "running",
                          "ddp         2   0/2", "[1/3] single world 1 repeat 0  starting"));
  comparison_.now += 1;
  comparison_.feed.step({1, 2.75, 0.5, {}});
  comparison_.now += 1;
  comparison_.feed.step({2, 2.5, 0.25, {}});
  screen.write(printed());
  EXPECT_THAT(
      screen.lines(),
      ElementsAre(
          "case    world  runs  samples/s  step ms    loss  peak MB  state",
          "single      1   0/1       8.00    250.0  2.5000           running",
          "ddp         2   0/2",
          "[1/3] single world 1 repeat 0  step 2/6  16 s left  8.0 samples/s  loss 2.5000"));
  comparison_.feed.end_run(comparison_.row(0, 16), true, false);
  comparison_.make(1, 4);
  comparison_.feed.begin_run(2, 1);
  screen.write(printed());
  EXPECT_THAT(
      screen.lines(),
      ElementsAre("[1/3] single world 1 repeat 0  16.0 samples/s  step 125.0 ms  loss 1.5000",
                  "[2/3] ddp world 2 repeat 0  4.0 samples/s  step 500.0 ms  loss 1.5000",
                  "case    world  runs  samples/s  step ms    loss  peak MB  state",
                  "single      1   1/1       16.0    125.0  1.5000     2.00  done",
                  "ddp         2   1/2       4.00    500.0  1.5000     2.00  running",
                  "[3/3] ddp world 2 repeat 1  starting  6 s left"));
  EXPECT_TRUE(screen.cursor_is_at_the_beginning());
  display_.leave();
  screen.write(printed());
  EXPECT_EQ(screen.lines().size(), 2u) << "the runs that have ended stay";
}

TEST_F(Displaying, LinesFitTerminalsOfEveryWidth) {
  comparison_.plans[1].label = comparison_.plans[2].label =
      "ddp (bucket_mb=25, reduce=every) \xC3\xA9";
  comparison_.begin();
  comparison_.make(0, 4);
  comparison_.make(1, 4);
  comparison_.feed.begin_run(2, 1);
  for (int columns = 1; columns <= 120; ++columns)
    for (const std::string& line : live_lines(display_.standing(), comparison_.now, {columns, 24}))
      EXPECT_LT(static_cast<int>(runner::columns_of(line)), std::max(2, columns)) << line;
  // A column is left out before a label is cut beyond recognition.
  const auto at = [&](int columns) { return case_lines(display_.standing(), columns, 24); };
  EXPECT_THAT(at(100)[0], HasSubstr("samples/s  step ms    loss  peak MB  state"));
  EXPECT_THAT(at(100)[2], StartsWith("ddp (bucket_mb=25, reduce=every) \xC3\xA9  "));
  EXPECT_THAT(at(79)[2], StartsWith("ddp (bucket_mb=25, reduce=...  "));
  EXPECT_THAT(at(79)[0], Not(HasSubstr("peak MB")));
  EXPECT_EQ(at(40)[0], "case              world  runs  samples/s");
  EXPECT_EQ(at(40)[2], "ddp (bucket_m...      2   1/2       4.00");
}

TEST_F(Displaying, ALowTerminalShowsTheCasesThatMatter) {
  std::vector<RunPlan> plans;
  for (int i = 0; i < 40; ++i) {
    RunPlan plan = comparison_.plans[0];
    plan.id = fmt::format("case-{}", i);
    plan.listing.label = plan.id;
    plan.listing.line = plan.listing.place = i;
    plans.push_back(plan);
  }
  comparison_.plans = plans;
  size_ = {80, 9};
  Screen screen = this->screen();
  comparison_.begin();
  comparison_.feed.begin_run(0, 1);
  comparison_.feed.end_run(failed_row(plans[0], "rank 0 gave up"), true, false);
  for (std::size_t i = 1; i < 20; ++i) comparison_.make(i, 4);
  comparison_.feed.begin_run(20, 1);
  screen.write(printed());
  const std::vector<std::string> lines = screen.lines();
  ASSERT_EQ(lines.size(), 8u) << "with a free line for the cursor";
  EXPECT_THAT(lines[0], StartsWith("case "));
  EXPECT_THAT(lines[1], StartsWith("case-0 "));
  EXPECT_THAT(lines[1], HasSubstr("FAILED"));
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_THAT(lines[2 + i], StartsWith(fmt::format("case-{} ", 17 + i)));
  EXPECT_THAT(lines[5], StartsWith("case-20 "));
  EXPECT_THAT(lines[5], HasSubstr("running"));
  EXPECT_EQ(lines[6], "35 more cases: 16 done, 19 not begun");
  EXPECT_THAT(lines[7], StartsWith("[21/40] case-20 world 1 repeat 0  starting"));
  // There may be no room for a table at all.
  EXPECT_EQ(live_lines(display_.standing(), comparison_.now, {80, 4}).size(), 1u);
}

TEST_F(Displaying, ATerminalThatBecomesNarrowerIsCleanedAllTheSame) {
  size_ = {80, 24};
  comparison_.begin();
  comparison_.feed.begin_run(0, 1);
  printed();
  size_ = {40, 24};  // terminals break the lines that are there: two of the four take two rows now
  display_.leave();
  EXPECT_EQ(printed(), "\r\x1b[6A\x1b[J");
}

TEST_F(Displaying, WhatRanksWriteStandsAboveTheTable) {
  size_ = {80, 24};
  Screen screen = this->screen();
  comparison_.begin();
  comparison_.feed.begin_run(0, 1);
  display_.print("rank 1: a warning\nrank 0: anoth");
  comparison_.now += 1;
  comparison_.feed.step({1, 2.75, 0.5, {}});
  screen.write(printed());
  const std::vector<std::string> lines = screen.lines();
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "rank 1: a warning");
  EXPECT_EQ(lines[1], "rank 0: anoth");
  EXPECT_THAT(lines[2], StartsWith("case "));
}

TEST_F(Displaying, ARepeatedRunSaysWhichAttemptItIs) {
  comparison_.begin();
  comparison_.make(0, 4);
  comparison_.feed.begin_run(1, 1);
  RunRecord disturbed = comparison_.row(1, 4);
  disturbed.load = MachineLoad{.seconds = 10, .cores = 2, .others_s = 10};
  comparison_.feed.end_run(disturbed, true, true);
  printed();
  comparison_.feed.begin_run(1, 2);
  comparison_.now += 3;
  comparison_.feed.step({2, 2, 0.5, {}});
  EXPECT_THAT(printed(), HasSubstr("[2/3] ddp world 2 repeat 0, attempt 2 of 3  step 2/6"));
}

TEST_F(Displaying, FailuresAreTold) {
  comparison_.begin();
  comparison_.feed.begin_run(0, 1);
  comparison_.feed.end_run(failed_row(comparison_.plans[0], "rank 0 gave up"), true, false);
  EXPECT_THAT(printed(), HasSubstr("[1/3] single world 1 repeat 0  FAILED: rank 0 gave up"));
}

TEST_F(Displaying, KeptRunsAreInTheTableAlone) {
  comparison_.begin({comparison_.row(0, 4)});
  EXPECT_EQ(printed(), "");
  EXPECT_THAT(case_lines(display_.standing(), 80, 9)[1], HasSubstr("  1/1       4.00  "));
  comparison_.feed.begin_run(0, 1);
  comparison_.feed.end_run(comparison_.row(1, 4), true, false);
  EXPECT_THAT(printed(), StartsWith("[2/3] ddp world 2 repeat 0  4.0 samples/s"));
}

TEST(Duration, IsReadable) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(45), "45 s");
  EXPECT_EQ(duration_text(187), "3:07 min");
  EXPECT_EQ(duration_text(3720), "1:02 h");
}

TEST(InColumns, CutsWholeCharactersAndControlsNoTerminal) {
  EXPECT_EQ(in_columns("plain", 5), "plain");
  EXPECT_EQ(in_columns("plainer", 6), "pla...");
  EXPECT_EQ(in_columns("\xC2\xB1\xC2\xB1\xC2\xB1\xC2\xB1\xC2\xB1", 4), "\xC2\xB1...");
  EXPECT_EQ(in_columns("plain", 2), "pl");
  EXPECT_EQ(in_columns("plain", 0), "");
  EXPECT_EQ(in_columns("a\x1b[2Jb\nc", 9), "a [2Jb c");
}

TEST(TerminalSize, AFileAndADumbTerminalHaveNone) {
  EXPECT_FALSE(terminal_size(-1, {}).is_terminal());
  EXPECT_FALSE(terminal_size(1, {"TERM=dumb"}).is_terminal());
}

}  // namespace
}  // namespace ringside::tools::watch
