// A rank's end of `ringside bench comm`, which tells its ranks by lines of text when to do what:
//
//     the rank            the bench
//     hello RANK                                at first
//                         array OPERATION COUNT
//     ready
//                         turn WAY CALLS
//     times B E B E ...                         begin and end of every call, seconds since the
//     start
//                                               of the host
//                         check
//     wrong N                                   elements of the last call's result
//     error TEXT                                instead of an answer; the rank then ends
//
// Between an answer and the next command a rank blocks in read(), whatever its library does while
// it waits, so the ranks of other libraries have the processor. The end of the stream ends the
// rank.
#pragma once

#include <string>

#include "experiments/benchmark/rank/operations.h"

namespace ringside {

/// One rank of a group that is measured. All functions may block until the other ranks come.
class BenchRank {
 public:
  virtual ~BenchRank() = default;
  /// Makes arrays for `count` elements; the earlier ones are not used again.
  virtual void prepare(const CommOperation& operation, std::int64_t count) = 0;
  /// Gives the arrays their values.
  virtual void fill() = 0;
  /// Returns when all ranks have called meet().
  virtual void meet() = 0;
  /// Runs the operation; returns when this rank may use its result. `way` is one of the ways in
  /// which this library does it, such as the name of an algorithm.
  virtual void call(const std::string& way) = 0;
  /// The number of wrong elements of this rank.
  virtual std::int64_t count_wrong() = 0;
};

/// Does what the bench says until the bench closes the stream. Owns `socket`. Errors go to the
/// bench; returns whether there was none.
bool serve(int socket, int rank, BenchRank& served);

/// Connects with the bench. `name` is the word that it has given to the program of the rank.
/// Throws Error.
int connect_to_bench(const std::string& name);

}  // namespace ringside
