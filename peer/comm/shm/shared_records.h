// The records of a rank, in memory that processes share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "peer/comm/records.h"

namespace ringside::peer {

/// The last collectives of one rank. Only this rank writes, without waiting, and others read when
/// the group has broken. Memory filled with zeros is an empty object.
class SharedRecords {
 public:
  static constexpr std::uint64_t kept = Records::most;

  /// Notes that the rank begins collective `number`, the next one, or has ended it.
  void begin(std::uint64_t number, const Collective& call, std::string_view purpose, double now);
  void end(std::uint64_t number, double now);
  /// From the earliest to the latest, without those that the rank overwrites during this call.
  std::vector<Record> list() const;

 private:
  using Words = std::array<std::uint64_t, sizeof(Record) / sizeof(std::uint64_t)>;
  struct Slot {
    std::atomic<std::uint64_t> number;  // of the collective in `words`; 0 while these change
    std::atomic<double> ended;
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>> words;  // a Record
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                std::atomic<double>::is_always_lock_free);

  std::atomic<std::uint64_t> count_;  // of the collectives so far
  std::array<Slot, kept> slots_;
};

}  // namespace ringside::peer
