// Who is a member of an elastic run, and when: one case after the other, and thousands of random
// courses of whole runs, of which every generation begins where all the state is.
#include "core/launch/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = MembershipAction::Kind;

std::vector<MembershipAction> all_of(Membership& members) {
  std::vector<MembershipAction> out;
  while (auto action = members.next()) out.push_back(std::move(*action));
  return out;
}

std::vector<Kind> kinds_of(const std::vector<MembershipAction>& actions) {
  std::vector<Kind> out;
  for (const MembershipAction& one : actions) out.push_back(one.kind);
  return out;
}

TEST(Membership, AWorldWithoutOneIsFormedOnceAllOthersHaveLeft) {
  Membership members({.worlds = {1, 2, 3}});
  members.ended(1, "killed");
  EXPECT_TRUE(members.border_wanted());
  const auto ordered = all_of(members);
  EXPECT_THAT(kinds_of(ordered), ElementsAre(Kind::interrupt, Kind::interrupt));
  EXPECT_THAT(members.awaited(), ElementsAre(0, 2));
  members.left(2);
  EXPECT_THAT(all_of(members), IsEmpty());
  members.left(0);
  const auto formed = all_of(members);
  ASSERT_THAT(kinds_of(formed), ElementsAre(Kind::form));
  EXPECT_EQ(formed[0].world, 2);
  EXPECT_THAT(formed[0].seats, ElementsAre(0, 2));
  EXPECT_EQ(members.rank_of(2), 1);
  EXPECT_EQ(members.rank_of(1), -1);
}

TEST(Membership, WhatEndedIsReplacedAndJoinsAfterAStep) {
  Membership members({.worlds = {1, 2}, .replacements = 1});
  members.ended(1, "killed");
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::start, Kind::interrupt));
  members.left(0);
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::form));
  EXPECT_EQ(members.world(), 1);
  members.ready(1);
  EXPECT_THAT(all_of(members), IsEmpty()) << "nobody is interrupted for one who comes";
  EXPECT_TRUE(members.border_wanted());
  members.left(0);
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::form));
  EXPECT_EQ(members.world(), 2);
}

TEST(Membership, WorldsThatTheRunCannotHaveAreLeftOut) {
  Membership members({.worlds = {2, 4}});
  members.ended(3, "killed");
  for (const int seat : {0, 1, 2}) members.left(seat);
  const auto actions = all_of(members);
  EXPECT_EQ(actions.back().kind, Kind::form);
  EXPECT_EQ(actions.back().world, 2);
  EXPECT_FALSE(members.is_member(2)) << "it waits";
  members.ended(0, "killed");
  members.left(1);
  const auto again = all_of(members);
  EXPECT_EQ(again.back().kind, Kind::form);
  EXPECT_THAT(again.back().seats, ElementsAre(1, 2)) << "who waited takes the place";
}

TEST(Membership, TooFewEndTheRunWithTheCause) {
  Membership members({.worlds = {2, 3}});
  members.ended(0, "rank 0 was killed");
  members.ended(1, "rank 1 was killed");
  members.left(2);
  const auto actions = all_of(members);
  EXPECT_EQ(actions.back().kind, Kind::fail);
  EXPECT_THAT(actions.back().why, HasSubstr("1 worker is left"));
  EXPECT_THAT(actions.back().why, HasSubstr("rank 1 was killed"));
}

TEST(Membership, AServerIsAwaitedAndWithoutAReplacementTheRunEnds) {
  Membership members({.worlds = {1, 2}, .servers = 1, .replacements = 1});
  members.ended(2, "server killed");
  EXPECT_THAT(kinds_of(all_of(members)),
              ElementsAre(Kind::start, Kind::interrupt, Kind::interrupt));
  members.left(0);
  members.left(1);
  EXPECT_THAT(all_of(members), IsEmpty());
  members.ready(2);
  const auto formed = all_of(members);
  ASSERT_THAT(kinds_of(formed), ElementsAre(Kind::form));
  EXPECT_THAT(formed[0].seats, ElementsAre(0, 1, 2));
  members.ended(2, "server killed again");
  EXPECT_EQ(all_of(members).back().kind, Kind::fail);
}

TEST(Membership, AServerWhoseWorkersHaveLeftHasToo) {
  Membership members({.worlds = {1, 2}, .servers = 1});
  members.remove(1);
  EXPECT_THAT(all_of(members), IsEmpty());
  members.left(0);
  members.left(1);
  EXPECT_THAT(all_of(members), IsEmpty());
  members.finished(2);
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::dismiss, Kind::form));
  EXPECT_EQ(members.world(), 1);
}

TEST(Membership, ANewWorkerAwaitsTheEndOfOneThatWasDismissed) {
  Membership members({.worlds = {1, 2}});
  members.remove(1);
  members.left(0);
  members.left(1);
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::dismiss, Kind::form));
  members.add();
  EXPECT_THAT(all_of(members), IsEmpty());
  members.ended(1, "");
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::start));
  members.ready(1);
  members.left(0);
  EXPECT_EQ(all_of(members).back().world, 2);
}

TEST(Membership, ANewWorkerTakesTheSeatOfOneThatIsStillLeaving) {
  Membership members({.worlds = {1, 2}});
  members.remove(1);
  members.add();
  members.left(0);
  members.left(1);
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::dismiss, Kind::form));
  members.ended(1, "");
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::start));
}

TEST(Membership, ARunThatIsDoneEnds) {
  Membership members({.worlds = {1, 2}});
  members.finished(0);
  EXPECT_THAT(all_of(members), IsEmpty());
  members.finished(1);
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::finish));
}

TEST(Membership, WhoEndsAfterItsLastStepIsMissedUntilAllHaveDoneTheirs) {
  Membership members({.worlds = {1, 2}});
  members.finished(1);
  members.ended(1, "killed");
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::interrupt));
  members.left(0);
  EXPECT_THAT(kinds_of(all_of(members)), ElementsAre(Kind::form));
}

/// A whole elastic run without processes: ranks do steps, none begins one before all have done the
/// one before, and each copies its state after every step over the older of two copies. Ends,
/// leaves, late answers and new workers come at random.
class SimulatedRun {
 public:
  explicit SimulatedRun(std::uint64_t seed)
      : random_(seed),
        rules_{.worlds = worlds(), .servers = below(3) == 0 ? 1 : 0, .replacements = below(6)},
        members_(rules_),
        steps_(10 + below(20)) {
    for (int seat = 0; seat < rules_.worlds.back() + rules_.servers; ++seat) processes_[seat] = {};
    form(rules_.worlds.back(), all_seats(), 0);
  }

  /// Returns what went wrong; empty if nothing did.
  std::string run() {
    for (int turn = 0; turn < 20000 && !over_; ++turn) {
      act();
      if (over_ || !wrong_.empty()) break;
      do_something();
    }
    if (!over_ && wrong_.empty()) wrong_ = "it never ends";
    return wrong_;
  }
  bool failed() const { return failed_; }
  int generations() const { return static_cast<int>(members_.generation()); }

 private:
  struct Process {
    bool member = true, interrupted = false, left = false, done = false, starting = false;
    int rank = -1;
    int step = 0;                    // steps done
    std::optional<int> copies[2]{};  // the steps of its copies
    int next_copy = 0;
    bool copied = true;  // after its latest step
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  std::vector<int> worlds() {
    std::vector<int> out;
    for (int world = 1; world <= 5; ++world)
      if (below(4) > 0) out.push_back(world);
    if (out.size() < 2) out = {1, 4};
    return out;
  }
  std::vector<int> all_seats() const {
    std::vector<int> out;
    for (const auto& [seat, process] : processes_) out.push_back(seat);
    return out;
  }

  void form(int world, const std::vector<int>& seats, int from) {
    for (auto& [seat, process] : processes_) process.member = false;
    if (static_cast<int>(seats.size()) != world + rules_.servers) wrong_ = "a rank has no process";
    if (world < rules_.worlds.front() || world > rules_.worlds.back()) wrong_ = "no such world";
    for (std::size_t rank = 0; rank < seats.size(); ++rank) {
      if (!processes_.contains(seats[rank])) {
        wrong_ = "a rank's process has ended";
        return;
      }
      Process& one = processes_[seats[rank]];
      if (one.starting) wrong_ = "a rank's process is not ready";
      one = {.rank = static_cast<int>(rank), .step = from};
    }
    parts_.clear();
    for (std::size_t rank = 0; rank < seats.size(); ++rank) parts_[seats[rank]] = {};
    from_ = from;
  }

  /// The newest step of which every part has a copy, as ElasticRun finds it.
  int newest() const {
    std::map<int, std::size_t> count;
    for (const auto& [seat, copies] : parts_)
      for (const int step : copies) ++count[step];
    int out = from_;
    for (const auto& [step, copies] : count)
      if (copies == parts_.size()) out = std::max(out, step);
    return out;
  }

  void act() {
    while (auto action = members_.next()) {
      switch (action->kind) {
        case Kind::start:
          if (processes_.contains(action->seat) || ending_.contains(action->seat))
            wrong_ = "a seat is taken";
          processes_[action->seat] = {.member = false, .starting = true};
          break;
        case Kind::interrupt:
          if (!processes_.contains(action->seat)) wrong_ = "an interrupted process has ended";
          processes_[action->seat].interrupted = true;
          break;
        case Kind::form: {
          for (const auto& [seat, process] : processes_)
            if (process.member && !process.left && !process.done)
              wrong_ = "a member trains while another generation begins";
          const int from = newest();
          // All members had copied this step, or none of them could have begun the next one.
          if (from < committed_) wrong_ = "a step that all had copied is lost";
          form(action->world, action->seats, from);
          committed_ = from;
          break;
        }
        case Kind::dismiss:
          processes_.erase(action->seat);
          ending_.insert(action->seat);
          break;
        case Kind::finish:
          over_ = true;
          for (const auto& [seat, process] : processes_)
            if (process.member && !process.done) wrong_ = "the run ends before a member is done";
          break;
        case Kind::fail:
          over_ = failed_ = true;
          check_failure();
          break;
      }
    }
  }

  void check_failure() {
    int workers = 0;
    bool server_gone = false;
    for (const auto& [seat, process] : processes_)
      if (seat < rules_.worlds.back()) ++workers;
    for (int s = 0; s < rules_.servers; ++s)
      server_gone |= !processes_.contains(rules_.worlds.back() + s);
    if (!server_gone && workers >= rules_.worlds.front()) wrong_ = "it gave up with enough workers";
  }

  void do_something() {
    const std::vector<int> seats = all_seats();
    if (seats.empty()) return;
    const int seat = seats[static_cast<std::size_t>(below(static_cast<int>(seats.size())))];
    Process& one = processes_[seat];
    const int what = below(200);
    if (!ending_.empty() && what > 190) {
      const int ended = *ending_.begin();
      ending_.erase(ended);
      return members_.ended(ended, "");
    }
    if (what < 2) {
      processes_.erase(seat);
      return members_.ended(seat, "killed");
    }
    if (what == 2) return static_cast<void>(members_.remove(seat));
    if (what == 3) return members_.add();
    if (one.starting) {
      one.starting = false;
      return members_.ready(seat);
    }
    if (!one.member || one.left) return;
    if (one.interrupted) {
      one.left = true;
      one.done = false;
      return members_.left(seat);
    }
    if (one.done) return;
    advance(seat, one);
  }

  void advance(int seat, Process& one) {
    if (!one.copied) {
      one.copies[one.next_copy] = one.step;
      one.next_copy = 1 - one.next_copy;
      one.copied = true;
      std::set<int>& copies = parts_[seat];
      copies.clear();
      for (const auto& copy : one.copies)
        if (copy) copies.insert(*copy);
      committed_ = std::max(committed_, newest());
      // Servers stop with their workers, and all members agree on the step.
      if (members_.border_wanted() && !leave_after_) leave_after_ = latest_step();
      return;
    }
    if (leave_after_ && one.step >= *leave_after_) {
      one.left = true;
      if (all_have_left()) leave_after_.reset();
      return members_.left(seat);
    }
    if (one.step == steps_) {
      one.done = true;
      return members_.finished(seat);
    }
    // A step ends once all take part in it, each after its copy of the step before.
    for (const auto& [other, process] : processes_)
      if (process.member &&
          (process.step < one.step || (process.step == one.step && !process.copied)))
        return;
    for (const auto& [part, copies] : parts_)
      if (!processes_.contains(part)) return;  // waits for one that has ended
    ++one.step;
    one.copied = false;
  }

  int latest_step() const {
    int out = 0;
    for (const auto& [seat, process] : processes_)
      if (process.member) out = std::max(out, process.step);
    return out == steps_ ? steps_ + 1 : out;  // nobody leaves after the last step
  }
  bool all_have_left() const {
    return std::ranges::all_of(
        processes_, [](const auto& one) { return !one.second.member || one.second.left; });
  }

  std::mt19937_64 random_;
  Membership::Rules rules_;
  Membership members_;
  int steps_;
  std::map<int, Process> processes_;    // by seat
  std::map<int, std::set<int>> parts_;  // steps of copies, by the seat that made them
  int from_ = 0;                        // where the generation began
  int committed_ = 0;                   // a step of which all state has been copied
  std::set<int> ending_;                // seats of dismissed processes that have not ended
  std::optional<int> leave_after_;
  bool over_ = false, failed_ = false;
  std::string wrong_;
};

TEST(MembershipAtRandom, EveryGenerationBeginsWithStateThatIsWhole) {
  int failures = 0, generations = 0;
  for (std::uint64_t seed = 0; seed < 10000; ++seed) {
    SimulatedRun run(seed);
    ASSERT_EQ(run.run(), "") << "seed " << seed;
    failures += run.failed() ? 1 : 0;
    generations += run.generations();
  }
  std::printf("10000 runs, %d changes of the world, %d ended without enough workers\n", generations,
              failures);
  EXPECT_GT(generations, 10000);
  EXPECT_GT(failures, 100);
  EXPECT_LT(failures, 9900);
}

TEST(MembershipAtRandom, TheSameCourseLeadsToTheSameWorlds) {
  for (const std::uint64_t seed : {1, 77, 4711}) {
    SimulatedRun a(seed), b(seed);
    a.run();
    b.run();
    EXPECT_EQ(a.generations(), b.generations());
    EXPECT_EQ(a.failed(), b.failed());
  }
}

}  // namespace
}  // namespace ringside
