// A rank's end of `ringside bench`, which tells its ranks by lines of JSON when to do what:
//
//     the rank                    the bench
//     {"hello": RANK, "note": TEXT}
//                                 at first; the note, which may be empty, says what a reader of the
//                                 figures has to know of the rank
//                                 {"array": OPERATION, "count": COUNT}
//     {"ready": true}
//                                 {"turn": WAY, "calls": CALLS}
//     {"times": [B, E, B, E, ...]}
//                                 begin and end of every call, seconds since the host's start; none
//                                 from a rank that only serves
//                                 {"check": true}
//     {"wrong": N}                elements of the last call's result
//     {"error": TEXT}             instead of an answer, or unasked from a rank that only
//                                 serves; the rank then ends
//                                 {"over": true}
//                                 the rank ends; it ends too at the end of the lines
//
// Between an answer and the next command a rank sleeps, whatever its library does while it waits,
// so the ranks of other libraries have the processor.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "experiments/tools/bench/rank/operations.h"

namespace ringside::tools::bench {

/// One rank of a group that is measured. All functions may block until the other ranks come.
class BenchRank {
 public:
  virtual ~BenchRank() = default;
  /// Makes what the operation needs for `count` elements; the earlier arrays are not used again.
  virtual void make_arrays(const std::string& operation, std::int64_t count) = 0;
  /// Whether the calls of this rank are timed. The rest is called only if they are: a rank that
  /// serves the others does so beside these lines.
  virtual bool is_timed() const { return true; }
  /// The note of the first line; may be empty.
  virtual std::string note() const { return {}; }
  /// Called ten times a second while a rank that is not timed waits for a command. Throws what has
  /// gone wrong in what the rank does beside: the bench is told at once.
  virtual void look() {}
  /// Called before the calls of a turn; `way` as in call().
  virtual void begin_turn(const std::string& way) { static_cast<void>(way); }
  /// Gives the arrays their values.
  virtual void fill() = 0;
  /// Returns when all ranks have called meet().
  virtual void meet() = 0;
  /// Runs the operation; returns when this rank may use its result. `way` is one of the ways in
  /// which this library does it, such as the name of an algorithm.
  virtual void call(const std::string& way) = 0;
  /// The number of wrong elements of this rank since the last question, or in the last result.
  virtual std::int64_t count_wrong() = 0;
};

/// A rank of `bench comm`.
class CommRank : public BenchRank {
 public:
  void make_arrays(const std::string& operation, std::int64_t count) override {
    prepare(find_comm_operation(operation), count);
  }
  /// Makes arrays for `count` elements.
  virtual void prepare(const CommOperation& operation, std::int64_t count) = 0;
};

/// The lines between a rank and the bench.
struct BenchLine {
  /// The next message; null if none comes within `timeout_s` (negative: no limit), none at the end.
  std::function<std::optional<nlohmann::json>(double timeout_s)> hear;
  std::function<void(const nlohmann::json&)> say;
};

/// Executes the bench's commands until the bench is over. Errors go to the bench; returns whether
/// there was none.
bool serve(const BenchLine& line, int rank, BenchRank& served);

/// The same for a program of its own, which `ringside bench comm --beside` has started. `bench` is
/// the word that the program was given. Throws Error if there is no bench.
bool serve(const std::string& bench, int rank, BenchRank& served);

}  // namespace ringside::tools::bench
