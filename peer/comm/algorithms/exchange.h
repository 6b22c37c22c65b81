// Exchange: the messages of one collective, as one of its ranks sends and receives them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ringside::peer {

/// The arrays of a collective on one rank: its operands (for an all_reduce and a broadcast both are
/// the same array) and memory for values in between.
enum class Array : std::uint8_t { in, out, scratch };

/// Elements [begin, begin + count) of an array.
struct Elements {
  Array array = Array::in;
  std::int64_t begin = 0, count = 0;
};

struct Sending {
  int to = 0;
  Elements from;
};
/// `into` becomes the message or, with `plus`, the sum of `plus` and the message. `plus` may be
/// `into`.
struct Receiving {
  int from = 0;
  Elements into;
  std::optional<Elements> plus{};
};

/// An algorithm is a program that every rank runs with an Exchange of its own. The program may
/// depend on ranks, sizes and hosts, but not on values. The ranks of a group are numbered from 0.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual int rank() const = 0;
  /// The host of every rank: ranks with the same number share a host.
  virtual const std::vector<int>& hosts() const = 0;
  int size() const { return static_cast<int>(hosts().size()); }
  /// The number of elements of an operand.
  virtual std::int64_t count(Array array) const = 0;

  /// One step: starts all messages at once and blocks until all are over. The n-th message that a
  /// rank sends to another rank is the n-th that the other receives from it. No two messages of a
  /// step may write the same elements, and none may write elements that another one sends.
  virtual void step(const std::vector<Sending>& sends, const std::vector<Receiving>& receives) = 0;
  /// Copies elements on this rank; does nothing if they are the same memory.
  virtual void copy(const Elements& from, const Elements& to) = 0;
  /// Adds elements of this rank to others of this rank.
  virtual void add(const Elements& from, const Elements& to) = 0;
};

}  // namespace ringside::peer
