// The bytes of each kind of memory that a device has handed out, now and at the peak.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/buffer.h"

namespace ringside {

class Clock;

/// Bytes for each kind of memory.
class MemoryUse {
 public:
  std::int64_t& operator[](MemoryKind kind) { return bytes_[static_cast<std::size_t>(kind)]; }
  std::int64_t operator[](MemoryKind kind) const { return bytes_[static_cast<std::size_t>(kind)]; }
  std::int64_t total() const {
    std::int64_t sum = 0;
    for (auto bytes : bytes_) sum += bytes;
    return sum;
  }
  bool operator==(const MemoryUse&) const = default;

 private:
  std::array<std::int64_t, memory_kinds> bytes_{};
};

/// Counts the bytes that a device handed out, as requested (before any rounding). Thread-safe.
class Ledger {
 public:
  void add(MemoryKind kind, std::size_t bytes);
  void remove(MemoryKind kind, std::size_t bytes);

  MemoryUse current() const;
  /// The bytes of each kind at the moment when the total was largest.
  MemoryUse at_peak() const;
  /// Forgets the peak so far: the present use becomes the peak.
  void reset_peak();

  /// From `seconds` on, `kind` holds `bytes`.
  struct Change {
    double seconds = 0;
    MemoryKind kind{};
    std::int64_t bytes = 0;
  };
  /// From now on keeps every change with the clock's time, after a first entry for each kind with
  /// its present bytes. Null ends this. The clock must outlive its use.
  void keep_changes(const Clock* clock);
  /// Drops the kept changes of earlier times, but for the last one of each kind.
  void drop_changes_before(double seconds);
  std::vector<Change> changes() const;

 private:
  void note(MemoryKind kind);

  mutable std::mutex mutex_;
  MemoryUse current_, at_peak_;
  const Clock* clock_ = nullptr;  // null: changes are not kept
  std::vector<Change> changes_;
};

/// Makes the Error of a device that cannot provide `bytes`. The message has the request, what each
/// kind holds, `cause`, and what to do.
Error out_of_memory(std::string_view device, std::size_t bytes, MemoryKind kind,
                    const MemoryUse& held, std::string_view cause);
/// Whether the text of an error, which may come from another process, is such a message.
bool says_no_memory(std::string_view error);
/// For messages: "80.0 GB", "3.5 MB".
std::string memory_text(double bytes);

}  // namespace ringside
