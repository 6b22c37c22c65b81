// The ranks of one library, as `ringside bench` controls them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/tools/bench/rank/operations.h"

namespace ringside::tools::bench {

/// The deadlines of the bench for its ranks.
struct Patience {
  double timeout_s = 60;  // for each answer
  std::function<bool()> interrupted = [] { return false; };
};

/// The processes of the ranks. The destructor ends those that still run; none is left behind.
class RankProcesses {
 public:
  virtual ~RankProcesses() = default;
  /// Called ten times a second while the bench waits; does not block.
  virtual void look() {}
  /// The cause of the end of this rank's process, whose connection has ended; waits at most 5 s.
  virtual std::string cause_of_end(int rank) = 0;
  /// Waits until the processes have ended by themselves, as they do without connections; two
  /// seconds at most.
  virtual void wait_for_end() {}
};

/// Sends commands to all ranks of a group, by the protocol of experiments/tools/bench/rank/serve.h.
/// Every function blocks until all ranks have answered. Throws Error that names group and rank as
/// soon as a rank says that it failed or ends, or when the time is over; no function may be called
/// after that.
class RankGroup {
 public:
  /// Owns `sockets`, each of which leads to the rank that says so in its first line. Errors begin
  /// with `name`, which says the bench and the library ("bench comm: gloo"), and call the ranks by
  /// `ranks`; if it is empty, "rank 0" and so on.
  RankGroup(std::string name, std::vector<int> sockets, std::unique_ptr<RankProcesses> processes,
            Patience patience, std::vector<std::string> ranks = {});
  /// Ends the ranks, by force if close() has not been called.
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  void prepare(std::string_view operation, std::int64_t count);
  /// The time of each call, in microseconds from the moment when the last or the first rank begins
  /// to the moment when the last rank ends; or, for ranks whose clocks differ, the longest time of
  /// any rank from its own begin.
  enum class From : std::uint8_t { last_begin, first_begin, own_begin };
  std::vector<double> turn(const std::string& way, int calls, From from = From::last_begin);
  /// The note of the first rank that has one (see serve.h); empty if none has.
  const std::string& note() const { return note_; }
  /// The number of wrong elements after the last call, of all ranks together.
  std::int64_t count_wrong();
  /// Lets the ranks end in good order.
  void close();

 private:
  /// The answers by rank, without their first word, which is `expected`.
  std::vector<std::string> ask(const std::string& command, const std::string& expected);
  std::vector<std::string> answers(const std::string& command, const std::string& expected);
  /// The next line of rank r, if it has come; `ended` if none will.
  bool receive(std::size_t r, std::string& line, bool& ended);
  [[noreturn]] void give_up(const std::string& command, const std::vector<bool>& answered) const;
  void order_by_rank();
  void close_sockets();

  std::string name_;
  std::string note_;
  std::vector<std::string> ranks_;
  std::unique_ptr<RankProcesses> processes_;
  Patience patience_;
  std::vector<int> sockets_;
  std::vector<std::string> received_;  // parts of lines
};

}  // namespace ringside::tools::bench
