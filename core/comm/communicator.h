// Communicator: collectives between peers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/traffic.h"
#include "core/comm/algorithm.h"
#include "core/device/device.h"

namespace ringside {

/// A communication operation under way. It starts after all compute that was enqueued before it,
/// and runs beside compute that is enqueued later.
class Work {
 public:
  /// Waits as wait() does, but swallows errors.
  virtual ~Work() = default;
  /// Makes the result visible to compute that is enqueued later. Until wait() returns the caller
  /// must not touch the operation's tensors. On a CPU wait() blocks; on a GPU only later compute
  /// waits, and the host continues. Throws Error if a peer does not arrive within the
  /// communicator's deadline, or calls another operation. The Error names the operation and the
  /// ranks that it concerns.
  virtual void wait() = 0;
  /// Whether wait() would return or throw at once, and later compute would not wait either. Does
  /// not block.
  virtual bool ready() = 0;

  /// The start and the end of the operation on its device. May be called only after wait().
  struct Span {
    Mark begin, end;
  };
  virtual Span span() const = 0;

  /// The note of the operation's span in a trace, filled in by the caller that begins it.
  struct Note {
    std::string_view group{};      // that of the communicator, which outlives the work
    std::string_view operation{};  // "all_reduce"; a constant
    std::int64_t bytes = 0;        // of the whole array
    std::int64_t sequence = 0;     // among the collectives of the group, from 1; 0: a message
    std::int64_t flow = 0;         // the arrow that leads here (SpanNote::flows); 0: none
  };
  Note note{};
};
using WorkPtr = std::unique_ptr<Work>;

class Window;

/// A group of ranks that communicate, as one of its ranks sees the group.
struct Group {
  std::string name;  // no other group of the run has it
  int rank = 0;      // the caller's rank in the group
  int size = 1;
  Algorithm algorithm = Algorithm::native;  // of its collectives
};

/// A group of ranks that call the same operations in the same order. Tensors may have any dtype
/// where values are only moved; sums are of fp32, bf16 and fp16. Tensors lie in memory of a kind in
/// the symmetric heap: parameter, gradient or communication. All ranks get bitwise the same sum, no
/// matter which ranks are early or late. The values of the ranks are added in fp32 and in rank
/// order, except that NCCL and the library of Algorithm::library choose the order themselves, and
/// that every algorithm of messages has an order of its own (peer/comm/algorithms); for bf16 and
/// fp16 every addition is rounded to that type. Collectives of one communicator run in the order of
/// their calls; messages (send, recv) run beside them, in order for each pair of ranks. After an
/// error every later operation throws. A Work must not outlive its communicator. Below, S is the
/// number of bytes of the whole array, and p is the number of ranks. A formula like "S * (p-1)/p"
/// gives the bytes that each rank sends with Algorithm::native.
class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Replaces every rank's `array` by the sum of all of them. 2 * S * (p-1)/p.
  virtual WorkPtr all_reduce(const Tensor& array) = 0;
  /// Fills each rank's `part` (count n) with elements [rank * n, (rank + 1) * n) of the sum of
  /// all `array`s (count p * n). `part` may be that range of `array` itself. Algorithms of messages
  /// may overwrite all of `array`. S * (p-1)/p.
  virtual WorkPtr reduce_scatter(const Tensor& array, const Tensor& part) = 0;
  /// Fills `array` (count p * n) with all ranks' `part`s (count n) in rank order. `part` may be
  /// this rank's range of `array`. S * (p-1)/p.
  virtual WorkPtr all_gather(const Tensor& part, const Tensor& array) = 0;
  /// Copies the root's `array` to all ranks. The root sends S * (p-1).
  virtual WorkPtr broadcast(const Tensor& array, int root) = 0;
  /// Copies part j of rank i's `in` to part i of rank j's `out`. S * (p-1)/p.
  virtual WorkPtr all_to_all(const Tensor& in, const Tensor& out) = 0;
  /// Send or receive a message. The n-th message that a rank sends to another rank goes to that
  /// rank's n-th recv() from it. The sender sends S.
  virtual WorkPtr send(const Tensor& array, int to) = 0;
  virtual WorkPtr recv(const Tensor& array, int from) = 0;
  /// Calls `begin`, which begins one collective of this communicator, and waits for that. On CPUs
  /// the collective runs on the calling thread: a small one then takes a fraction of the time.
  virtual void complete(const std::function<WorkPtr()>& begin) { begin()->wait(); }
  /// Blocks until every rank has called barrier().
  virtual void barrier() = 0;
  /// Makes a window (core/comm/window.h) of the tensors of all ranks, which may differ in size but
  /// not in dtype. All ranks call expose(), which blocks until all have. Sends nothing. Throws
  /// Error if ranks cannot reach each other's memory: with NCCL.
  virtual std::unique_ptr<Window> expose(const Tensor& tensor) = 0;
  /// Allocates one array of p * count elements, uninitialised, that all ranks read and write in
  /// place, as MPI_Win_allocate_shared (MPI Forum 2015, section 11.2.3). Each rank's ledger counts
  /// `count` elements of the array; traffic() counts nothing. Only barriers and collectives order
  /// the accesses of several ranks to the same elements. The array is no operand of other functions
  /// of communicators, and the device must outlive it. All ranks call share(), which blocks until
  /// all have. Returns an empty tensor, at once, if ranks do not compute in one memory: with NCCL,
  /// between hosts, in a group of one rank, and in groups with an algorithm of messages, whose
  /// values must go over links.
  virtual Tensor share(std::int64_t count, MemoryKind kind, DType dtype) = 0;
  /// Returns a new communicator of the ranks that gave the same colour, ordered by (key, rank). All
  /// ranks must call it.
  virtual std::unique_ptr<Communicator> split(int colour, int key) = 0;

  /// Names the purpose of this rank's next collective, such as "bucket head", for errors and for
  /// the records of a group that breaks.
  void name_next(std::string what) { name_of_next_ = std::move(what); }

  /// The bytes that this communicator alone has moved since it was made.
  virtual Traffic traffic() const = 0;

 protected:
  /// Returns the name that name_next() has given, and clears it.
  std::string take_name() { return std::exchange(name_of_next_, {}); }

 private:
  int rank_, size_;
  std::string name_of_next_;
};

}  // namespace ringside
