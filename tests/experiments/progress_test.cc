#include "experiments/run/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/experiments/made_up_rows.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Progressing : public ::testing::Test {
 protected:
  ProgressDisplay display(int columns) {
    return {out_,
            columns,
            {made_up_row("single", 1, 0, 1, "", {}).plan, made_up_row("ddp", 2, 0, 1, "", {}).plan,
             made_up_row("ddp", 2, 1, 1, "", {}).plan},
            [this] { return now_; }};
  }
  std::ostringstream out_;
  double now_ = 1000;
};

TEST_F(Progressing, PlainLinesComeEveryTwoSecondsAndAtTheEnd) {
  auto show = display(0);
  show.begin_run(1);
  for (int step = 1; step <= 4; ++step) {
    now_ += 1;
    show.step(step, 0.5);
  }
  show.end_run(made_up_row("ddp", 2, 0, 4, "", {2, 1.5}));
  const std::string text = out_.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_THAT(text, Not(HasSubstr("step 1/6")));
  EXPECT_THAT(text, HasSubstr("[2/3] ddp world 2 repeat 0  step 2/6  4.0 samples/s"));
  EXPECT_THAT(text, HasSubstr("4.0 samples/s  step 500.0 ms  loss 1.5000"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST_F(Progressing, ATerminalHasOneLineThatIsRewritten) {
  auto show = display(30);
  show.begin_run(0);
  for (int step = 1; step <= 4; ++step) {
    now_ += 1;
    show.step(step, 0.5);
  }
  const std::string text = out_.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0);
  EXPECT_THAT(text, HasSubstr("\r"));
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '\r');) EXPECT_LT(part.size(), 30u);
}

TEST_F(Progressing, ARepeatedRunSaysWhichAttemptItIs) {
  auto show = display(0);
  show.begin_run(1, 2, 3);
  now_ += 3;
  show.step(2, 0.5);
  show.begin_run(2, 1, 3);
  now_ += 3;
  show.step(2, 0.5);
  EXPECT_THAT(out_.str(), HasSubstr("[2/3] ddp world 2 repeat 0, attempt 2 of 3  step 2/6"));
  EXPECT_THAT(out_.str(), HasSubstr("[3/3] ddp world 2 repeat 1  step 2/6"));
}

TEST_F(Progressing, FailuresAreTold) {
  auto show = display(0);
  show.begin_run(0);
  show.end_run(failed_row(made_up_row("single", 1, 0, 1, "", {}).plan, "rank 0 gave up"));
  EXPECT_THAT(out_.str(), HasSubstr("FAILED: rank 0 gave up"));
}

TEST_F(Progressing, TimeLeftFollowsFromEarlierRuns) {
  auto show = display(0);
  show.begin_run(0);
  EXPECT_LT(show.seconds_left(), 0);
  now_ += 10;
  show.end_run(made_up_row("single", 1, 0, 1, "", {1}));
  show.begin_run(1);
  EXPECT_DOUBLE_EQ(show.seconds_left(), 20);  // as the mean of the earlier runs
  now_ += 4;
  show.end_run(made_up_row("ddp", 2, 0, 1, "", {1}));
  show.begin_run(2);
  EXPECT_DOUBLE_EQ(show.seconds_left(), 4);  // as its own repeat
  now_ += 1;
  show.step(1, 1);
  now_ += 1;
  show.step(2, 1);
  EXPECT_DOUBLE_EQ(show.seconds_left(), 4);  // four steps of a second each
}

TEST(Duration, IsReadable) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(45), "45 s");
  EXPECT_EQ(duration_text(187), "3:07 min");
  EXPECT_EQ(duration_text(3720), "1:02 h");
}

}  // namespace
}  // namespace ringside
