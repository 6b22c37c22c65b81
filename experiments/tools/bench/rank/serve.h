// A rank's end of `ringside bench`, which tells its ranks by lines of text when to do what:
//
//     the rank            the bench
//     hello RANK NOTE                           at first; the note, which may be empty, says what a
//                                               reader of the figures has to know of the rank
//                         array OPERATION COUNT
//     ready
//                         turn WAY CALLS
//     times B E B E ...                         begin and end of every call, seconds since the
//                                               host's start; none from a rank that only serves
//                         check
//     wrong N                                   elements of the last call's result
//     error TEXT                                instead of an answer, or unasked from a rank that
//                                               only serves; the rank then ends
//
// Between an answer and the next command a rank blocks in read(), whatever its library does while
// it waits, so the ranks of other libraries have the processor. The end of the stream ends the
// rank.
#pragma once

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
  /// serves the others does so beside the lines of text.
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

/// Executes the bench's commands until the bench closes the stream. Owns `socket`. Errors go to the
/// bench; returns whether there was none.
bool serve(int socket, int rank, BenchRank& served);

/// Connects with the bench. `name` is the word that it has given to the program of the rank.
/// Throws Error.
int connect_to_bench(const std::string& name);

}  // namespace ringside::tools::bench
