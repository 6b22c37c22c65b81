#include "core/device/ledger.h"

#include <cassert>

namespace ringside {

void Ledger::add(MemoryKind kind, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  current_[kind] += static_cast<std::int64_t>(bytes);
  if (current_.total() > at_peak_.total()) at_peak_ = current_;
}

void Ledger::remove(MemoryKind kind, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  current_[kind] -= static_cast<std::int64_t>(bytes);
  assert(current_[kind] >= 0);
}

MemoryUse Ledger::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

MemoryUse Ledger::at_peak() const {
  std::lock_guard lock(mutex_);
  return at_peak_;
}

void Ledger::reset_peak() {
  std::lock_guard lock(mutex_);
  at_peak_ = current_;
}

}  // namespace ringside
