// Where a step that is given up leaves nothing under way, by brute force.
#include "core/pipeline/validation_points.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "core/pipeline/csv.h"
#include "tests/pipeline/made_schedules.h"

namespace ringside::pipeline {
namespace {

using Points = std::vector<std::size_t>;

/// Does the actions of all ranks, each as soon as it can and no rank beyond its limit. An output
/// goes from its send to the first receive that has none yet, in the queue of its two ranks.
class LimitedRun {
 public:
  LimitedRun(const Schedule& schedule, const Points& limits)
      : schedule_(schedule), next_(limits.size()) {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < limits.size(); ++rank)
        while (next_[rank] < limits[rank] && does(rank)) moves = true;
    }
  }

  /// The index of each rank's next action, and what was sent and not received, or the other way
  /// round, by (from, to).
  const Points& reached() const { return next_; }
  using Lanes = std::map<std::pair<int, int>, std::deque<Action>>;
  const Lanes& sent() const { return sent_; }
  const Lanes& awaited() const { return awaited_; }
  /// Whether any receive took what was not sent for it.
  bool mixed_up() const { return mixed_up_; }

 private:
  int rank_of(int stage) const { return schedule_.ranks_of[static_cast<std::size_t>(stage)]; }
  std::pair<int, int> lane(int from_stage, int to_stage) const {
    return {rank_of(from_stage), rank_of(to_stage)};
  }

  bool does(std::size_t rank) {
    const Action action = schedule_.actions[rank][next_[rank]];
    if (action.operation == F) {
      const bool is_ready = action.stage == 0 ||
                            rank_of(action.stage - 1) == static_cast<int>(rank) ||
                            here_.contains({action.stage, action.micro_batch});
      if (!is_ready) return false;
    } else if (action.operation == send_f) {
      sent_[lane(action.stage, action.stage + 1)].push_back(action);
    } else if (action.operation == recv_f) {
      awaited_[lane(action.stage - 1, action.stage)].push_back(action);
    } else {
      return false;  // nothing else comes before the points
    }
    ++next_[rank];
    match();
    return true;
  }

  void match() {
    for (auto& [lane, sent] : sent_) {
      auto& awaited = awaited_[lane];
      for (; !sent.empty() && !awaited.empty(); sent.pop_front(), awaited.pop_front()) {
        const Action& to = awaited.front();
        mixed_up_ |=
            sent.front().stage + 1 != to.stage || sent.front().micro_batch != to.micro_batch;
        here_.insert({to.stage, to.micro_batch});
      }
    }
  }

  const Schedule& schedule_;
  Points next_;
  Lanes sent_, awaited_;
  std::set<std::pair<int, std::int64_t>> here_;
  bool mixed_up_ = false;
};

bool nothing_is_awaited(const LimitedRun& run) {
  return std::ranges::all_of(run.awaited(), [](const auto& lane) { return lane.second.empty(); });
}

/// The properties that the header promises.
bool is_valid(const Schedule& schedule, const Points& points) {
  const LimitedRun run(schedule, points);
  return run.reached() == points && nothing_is_awaited(run) && !run.mixed_up();
}

void expect_valid_and_last(const Schedule& schedule, const std::string& label) {
  const Points points = validation_points(schedule);
  ASSERT_EQ(points.size(), schedule.actions.size());
  EXPECT_TRUE(is_valid(schedule, points)) << label;
  // No rank could have a later point beside those of the others.
  for (std::size_t rank = 0; rank < points.size(); ++rank) {
    Points later = points;
    ++later[rank];
    if (later[rank] > schedule.actions[rank].size()) continue;
    EXPECT_FALSE(is_valid(schedule, later)) << label << ", rank " << rank;
  }
}

/// Every rank takes what is still under way, in the order in which it comes.
void expect_all_is_taken(const Schedule& schedule, const std::string& label) {
  const Points points = validation_points(schedule);
  LimitedRun::Lanes sent = LimitedRun(schedule, points).sent();
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const Action& receive : receives_of_given_up(schedule, points, rank)) {
      ASSERT_EQ(receive.operation, recv_f);
      const int from = schedule.ranks_of[static_cast<std::size_t>(receive.stage - 1)];
      auto& lane = sent[{from, rank}];
      ASSERT_FALSE(lane.empty()) << label << ", rank " << rank << ' ' << text_of(receive);
      EXPECT_EQ(lane.front(), (Action{receive.stage - 1, send_f, receive.micro_batch})) << label;
      lane.pop_front();
    }
  for (const auto& [lane, left] : sent) EXPECT_TRUE(left.empty()) << label;
}

TEST(ValidationPoints, OfAllMakersAreTheLastThatLeaveNothingUnderWay) {
  for (const MadeSchedule& made : made_schedules()) {
    const Schedule schedule = with_sends(made.schedule);
    expect_valid_and_last(schedule, made.label());
    expect_all_is_taken(schedule, made.label());
  }
}

/// Rank 1 begins all its receives at once, and rank 0 sends late.
TEST(ValidationPoints, OfSchedulesByHandStopBeforeReceivesThatNobodyHasSentFor) {
  const Schedule schedule = parse_csv(
      "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
      "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
      "by hand", "by hand");
  check(schedule);
  EXPECT_EQ(validation_points(schedule), (Points{2, 1}));
  expect_valid_and_last(schedule, "by hand");
  expect_all_is_taken(schedule, "by hand");
}

/// Rank 0 has computed and sent more than rank 1 has begun to receive.
TEST(ValidationPoints, LeaveToTakeWhatWasSentAhead) {
  const Schedule schedule = parse_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
      "by hand", "by hand");
  check(schedule);
  const Points points = validation_points(schedule);
  EXPECT_EQ(points, (Points{4, 2}));
  EXPECT_EQ(receives_of_given_up(schedule, points, 1), (std::vector<Action>{{1, recv_f, 1}}));
  EXPECT_TRUE(receives_of_given_up(schedule, points, 0).empty());
}

/// Until rank 0 knows the totals the other ranks compute p - 1 forwards, and it has as many left.
TEST(ValidationPoints, OfZbH2AreLateEnoughToWaitForNothing) {
  for (const int p : {2, 4, 8}) {
    const Schedule schedule = with_sends(find_maker("zb_h2").make(p, 1, 4 * p));
    const Points points = validation_points(schedule);
    for (int rank = 0; rank + 1 < p; ++rank) {
      const auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
      const auto end =
          actions.begin() + static_cast<std::ptrdiff_t>(points[static_cast<std::size_t>(rank)]);
      const auto forwards = std::count_if(
          actions.begin(), end, [](const Action& action) { return action.operation == F; });
      EXPECT_GE(forwards, p - 1 - rank) << "p = " << p << ", rank " << rank;
    }
  }
}

TEST(ValidationPoints, SayWhichStagesHaveBegun) {
  const Schedule schedule = with_sends(find_maker("zb_v").make(2, 2, 4));
  const Points points = validation_points(schedule);
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const auto rank = static_cast<std::size_t>(schedule.ranks_of[static_cast<std::size_t>(stage)]);
    bool begins = false;
    for (std::size_t i = 0; i < points[rank]; ++i)
      begins |=
          schedule.actions[rank][i].operation == F && schedule.actions[rank][i].stage == stage;
    EXPECT_EQ(begins_before_point(schedule, points, stage), begins) << stage;
  }
  EXPECT_TRUE(begins_before_point(schedule, points, 0));
}

}  // namespace
}  // namespace ringside::pipeline
