// The bytes of each kind of memory that a device has handed out, now and at the peak.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
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
  /// The most bytes of each kind by itself, at moments that differ from kind to kind, without those
  /// that were set aside.
  MemoryUse most() const;
  /// Forgets the peaks so far: the present use becomes the peak of all together and of each kind.
  void reset_peak();

  /// From now on most() leaves out so many bytes of the kind, which only wait to be sent or
  /// received. All other figures count them.
  void set_aside(MemoryKind kind, std::size_t bytes);
  /// Ends set_aside() for so many bytes.
  void bring_back(MemoryKind kind, std::size_t bytes);

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
  std::int64_t counted(MemoryKind kind) const { return current_[kind] - aside_[kind]; }
  void note_most(MemoryKind kind);

  mutable std::mutex mutex_;
  MemoryUse current_, at_peak_, most_, aside_;
  const Clock* clock_ = nullptr;  // null: changes are not kept
  std::vector<Change> changes_;
};

/// Bytes that are set aside (Ledger::set_aside) until this object ends. The ledger outlives it.
class SetAside {
 public:
  SetAside() = default;
  SetAside(Ledger& ledger, MemoryKind kind, std::size_t bytes)
      : ledger_(&ledger), kind_(kind), bytes_(bytes) {
    ledger.set_aside(kind, bytes);
  }
  SetAside(SetAside&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)), kind_(other.kind_), bytes_(other.bytes_) {}
  SetAside& operator=(SetAside&&) = delete;
  ~SetAside() {
    if (ledger_) ledger_->bring_back(kind_, bytes_);
  }

 private:
  Ledger* ledger_ = nullptr;
  MemoryKind kind_{};
  std::size_t bytes_ = 0;
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
