// Where owners of tables take the gradients of their readers.
#include "core/pipeline/table_places.h"

#include <gtest/gtest.h>

#include "core/pipeline/csv.h"
#include "core/pipeline/simulation.h"
#include "core/pipeline/values.h"
#include "tests/pipeline/made_schedules.h"

namespace ringside::pipeline {
namespace {

/// Of the first and the last stage, as those of tied embeddings.
std::vector<TablePlace> places_of(const Schedule& schedule) {
  return table_places(schedule, {0, schedule.stages() - 1});
}

/// The action before which the table's gradient of micro-batch `m` is added up; "end" behind all.
std::string place_text(const Schedule& schedule, std::size_t m) {
  const TablePlace place = places_of(schedule).at(m);
  const auto& actions = schedule.actions[0];
  return place.before == actions.size() ? "end" : text_of(actions.at(place.before));
}

/// The last stage of a pipeline of 4 makes its part in B, 4 slots of B before stage 0 needs it.
TEST(TablePlaces, OfALong1F1BAreTheBackwardsOfTheOwner) {
  const Schedule schedule = find_maker("1f1b").make(4, 1, 8);
  for (std::size_t m = 0; m < 8; ++m) {
    EXPECT_FALSE(places_of(schedule)[m].is_late()) << m;
    EXPECT_EQ(place_text(schedule, m), "0B" + std::to_string(m));
  }
}

/// Stage 0 of 2 begins its B when the reader ends its own: the way would be waited for.
TEST(TablePlaces, OfAShort1F1BAreTheNextBackwards) {
  const Schedule schedule = find_maker("1f1b").make(2, 1, 4);
  for (std::size_t m = 0; m < 3; ++m)
    EXPECT_EQ(place_text(schedule, m), "0B" + std::to_string(m + 1));
  EXPECT_EQ(place_text(schedule, 3), "end");
}

/// The picture in docs/pipelines.md: W0 of stage 3 ends in slot 12, and F6 of stage 0 begins in 15.
/// W5 ends in slot 25, and the last action of stage 0, W7, begins in 26.
TEST(TablePlaces, OfZbH1AreBehindTheWOfTheReader) {
  const Schedule schedule = find_maker("zb_h1").make(4, 1, 8);
  EXPECT_EQ(schedule.actions[0][places_of(schedule)[0].own], (Action{0, W, 0}));
  EXPECT_EQ(place_text(schedule, 0), "0F6");
  EXPECT_EQ(place_text(schedule, 5), "0W7");
  EXPECT_EQ(place_text(schedule, 6), "end");
  EXPECT_EQ(place_text(schedule, 7), "end");
}

/// Rank 0 would wait with its B0 for W0 of rank 1, which comes behind the F1 that waits for rank 0.
TEST(TablePlaces, OfAScheduleThatWouldWaitInACircleAreBehindTheWOfTheReader) {
  const Schedule schedule =
      parse_csv("0F0,0B0,0F1,0B1\n1F0,1I0,1F1,1W0,1I1,1W1\n", "mine.csv", "mine");
  check(schedule);
  EXPECT_EQ(place_text(schedule, 0), "0B1");
  EXPECT_EQ(place_text(schedule, 1), "end");
}

class WaitsForTables {
 public:
  explicit WaitsForTables(const Schedule& schedule)
      : schedule_(schedule), places_(places_of(schedule)), next_(schedule.actions.size()) {}

  /// Whether all ranks reach their ends if the owner waits at its places.
  bool end() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank)
        while (next_[rank] < actions(rank).size() && can_begin(rank)) {
          done_.push_back(actions(rank)[next_[rank]++]);
          moved = true;
        }
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (next_[rank] < actions(rank).size()) return false;
    return true;
  }

 private:
  const std::vector<Action>& actions(std::size_t rank) const { return schedule_.actions[rank]; }
  bool has(int stage, Operation operation, std::int64_t m) const {
    return std::ranges::find(done_, Action{stage, operation, m}) != done_.end();
  }
  bool is_made(const Value& value) const {
    if (value.is_forward()) return has(value.from, F, value.micro_batch);
    return has(value.from, B, value.micro_batch) || has(value.from, I, value.micro_batch);
  }
  bool can_begin(std::size_t rank) const {
    const auto value = needed(schedule_, actions(rank)[next_[rank]]);
    if (value && !is_made(*value)) return false;
    if (static_cast<int>(rank) != schedule_.ranks_of[0]) return true;
    const int reader = schedule_.stages() - 1;
    for (std::size_t m = 0; m < places_.size(); ++m) {
      const auto number = static_cast<std::int64_t>(m);
      if (places_[m].before == next_[rank] && !has(reader, B, number) && !has(reader, W, number))
        return false;
    }
    return true;
  }

  const Schedule& schedule_;
  std::vector<TablePlace> places_;
  std::vector<std::size_t> next_;
  std::vector<Action> done_{};
};

TEST(TablePlaces, AscendAndLetAllRanksReachTheirEnds) {
  for (const MadeSchedule& made : made_schedules()) {
    if (made.schedule.stages() < 2 || made.micro_batches > 2 * made.ranks) continue;
    const auto places = places_of(made.schedule);
    for (std::size_t m = 0; m < places.size(); ++m) {
      EXPECT_GE(places[m].before, places[m].own) << made.label();
      EXPECT_GE(places[m].before, places[m == 0 ? 0 : m - 1].before) << made.label();
    }
    EXPECT_TRUE(WaitsForTables(made.schedule).end()) << made.label();
  }
}

}  // namespace
}  // namespace ringside::pipeline
