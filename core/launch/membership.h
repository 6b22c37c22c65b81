// Membership: which processes are the ranks of an elastic run, and when that changes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ringside {

/// What the launcher of an elastic run must do next.
struct MembershipAction {
  enum class Kind : std::uint8_t {
    start,      // a process at `seat`, which says when it is ready
    interrupt,  // the member at `seat`: it gives up its step, and says that it has left
    form,       // the next generation: seats[r] is rank r, at `world`
    dismiss,    // the process at `seat`: it ends
    finish,     // the run is over
    fail        // the run cannot go on: `why`
  };
  Kind kind = Kind::fail;
  int seat = -1;
  int world = 0;
  std::vector<int> seats{};
  std::string why{};
};

/// Decides on the members of a run whose workers come and go. A process has a seat as long as it
/// lives: seats [0, most) are for workers, [most, most + servers) for servers that are processes of
/// their own. It is starting, then ready, and a member while it is a rank of the present
/// generation: a set of ranks that train together. The world changes in these steps, whatever
/// happens in between:
///
/// 1. A member has ended, or is to leave, or a process is ready and the world may grow. After an
///    end all others are interrupted at once; otherwise they are asked to leave after the step that
///    they are in (border_wanted()).
/// 2. Every member leaves its generation, or ends. None touches the memory of another any more.
/// 3. The members that are left and the processes that are ready form the largest world that the
///    run can have. If there are too few, those are awaited that are starting.
///
/// A pure state machine: it starts nothing and knows no time. Its owner does what next() says, and
/// tells it what happens. The same sequence of calls always leads to the same actions.
class Membership {
 public:
  struct Rules {
    std::vector<int> worlds;        // that the run can have, ascending, all positive
    int servers = 0;                // processes of their own
    std::int64_t replacements = 0;  // how many processes may be started for those that ended
  };

  /// The run begins with the largest of the worlds, all of whose processes are members.
  explicit Membership(Rules rules);

  /// The process at this seat waits for its place.
  void ready(int seat);
  /// The process at this seat has ended; `why` does not matter if it was dismissed.
  void ended(int seat, const std::string& why);
  /// The member has left its generation: it waits for its place, as one that is ready.
  void left(int seat);
  /// The member has done all steps of the run; or it serves, and all workers have left.
  void finished(int seat);
  /// The worker at this seat should leave for good after its step. Returns false if it stays: too
  /// few would be left.
  bool remove(int seat);
  /// One more worker should come, if the world may be as large.
  void add();

  /// What to do next; nothing once everything is done that follows from what has happened.
  std::optional<MembershipAction> next();

  /// Whether members should leave their generation after the step that they are in.
  bool border_wanted() const { return phase_ == Phase::changing; }
  std::int64_t generation() const { return generation_; }
  int world() const { return world_; }
  bool is_member(int seat) const;
  /// Members that have not left yet, while the world changes.
  std::vector<int> awaited() const;
  /// The seat of a rank of the present generation.
  int seat_of(int rank) const { return members_.at(static_cast<std::size_t>(rank)); }
  /// The rank of a member; -1 for others.
  int rank_of(int seat) const;

 private:
  enum class Phase : std::uint8_t { training, changing, over };
  enum class Place : std::uint8_t { starting, ready, member, dismissed };

  int most() const { return rules_.worlds.back(); }
  bool serves(int seat) const { return seat >= most(); }
  void change();
  void interrupt_all();
  void replace(int seat);
  void start(int seat);
  void form_if_possible();
  void finish_if_done();
  void fail(const std::string& why);
  int count(Place place, bool servers) const;

  Rules rules_;
  Phase phase_ = Phase::training;
  std::map<int, Place> places_;       // by seat
  std::vector<int> members_;          // seats by rank, of the present generation
  std::set<int> in_generation_;       // members that have not left yet
  std::set<int> finished_, leaving_;  // seats
  std::deque<MembershipAction> actions_;
  std::int64_t generation_ = 0;
  int world_ = 0;
  int awaiting_seats_ = 0;  // processes to start once those that are dismissed have ended
  bool interrupted_ = false;
  std::string last_end_;
};

}  // namespace ringside
