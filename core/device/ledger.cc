#include "core/device/ledger.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "core/device/device.h"

namespace ringside {
namespace {

std::string held_text(const MemoryUse& use) {
  std::string out;
  for (std::size_t i = 0; i < memory_kinds; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    if (use[kind] == 0) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name_of(kind),
                       memory_text(static_cast<double>(use[kind])));
  }
  return out.empty() ? "nothing" : out;
}

}  // namespace

void Ledger::add(MemoryKind kind, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  current_[kind] += static_cast<std::int64_t>(bytes);
  if (current_.total() > at_peak_.total()) at_peak_ = current_;
  note_most(kind);
  if (clock_) note(kind);
}

void Ledger::note_most(MemoryKind kind) { most_[kind] = std::max(most_[kind], counted(kind)); }

void Ledger::set_aside(MemoryKind kind, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  aside_[kind] += static_cast<std::int64_t>(bytes);
}

void Ledger::bring_back(MemoryKind kind, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  aside_[kind] -= static_cast<std::int64_t>(bytes);
  assert(aside_[kind] >= 0);
  note_most(kind);
}

void Ledger::remove(MemoryKind kind, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  current_[kind] -= static_cast<std::int64_t>(bytes);
  assert(current_[kind] >= 0);
  if (clock_) note(kind);
}

void Ledger::note(MemoryKind kind) { changes_.push_back({clock_->now(), kind, current_[kind]}); }

void Ledger::keep_changes(const Clock* clock) {
  std::lock_guard lock(mutex_);
  const bool begins = clock && !clock_;
  clock_ = clock;
  if (!begins) return;
  changes_.clear();
  for (std::size_t k = 0; k < memory_kinds; ++k) note(static_cast<MemoryKind>(k));
}

void Ledger::drop_changes_before(double seconds) {
  std::lock_guard lock(mutex_);
  std::array<bool, memory_kinds> has_later{};
  std::vector<Change> kept;
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    bool& later = has_later[static_cast<std::size_t>(change->kind)];
    if (change->seconds >= seconds || !later) kept.push_back(*change);
    later = later || change->seconds < seconds;
  }
  std::reverse(kept.begin(), kept.end());
  changes_ = std::move(kept);
}

std::vector<Ledger::Change> Ledger::changes() const {
  std::lock_guard lock(mutex_);
  return changes_;
}

MemoryUse Ledger::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

MemoryUse Ledger::at_peak() const {
  std::lock_guard lock(mutex_);
  return at_peak_;
}

MemoryUse Ledger::most() const {
  std::lock_guard lock(mutex_);
  return most_;
}

void Ledger::reset_peak() {
  std::lock_guard lock(mutex_);
  at_peak_ = current_;
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    most_[kind] = counted(kind);
  }
}

std::string memory_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} bytes", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} KB", bytes * 1e-3);
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes * 1e-6)
                     : fmt::format("{:.1f} GB", bytes * 1e-9);
}

namespace {
constexpr std::string_view no_memory_for = ": no memory for ";
}  // namespace

Error out_of_memory(std::string_view device, std::size_t bytes, MemoryKind kind,
                    const MemoryUse& held, std::string_view cause) {
  return Error("{}{}{} of kind {}; held: {}; {}; use a smaller model or batch, or more devices",
               device, no_memory_for, memory_text(static_cast<double>(bytes)), name_of(kind),
               held_text(held), cause);
}

bool says_no_memory(std::string_view error) {
  return error.find(no_memory_for) != std::string_view::npos;
}

}  // namespace ringside
