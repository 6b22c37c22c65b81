#include "core/device/ledger.h"

#include <cassert>

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
