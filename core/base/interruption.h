// Interruption: ends what the threads of a rank wait for, from outside.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/error.h"

namespace ringside {

/// Raised once, when others than the rank's peers decide that its present work is over: the world
/// of an elastic run changes. What waits for peers asks check() several times a second, or leaves a
/// call that ends its wait. Thread-safe.
class Interruption {
 public:
  /// Takes the call back when it ends; then the call is not under way either.
  class Call {
   public:
    Call() = default;
    Call(Interruption& of, std::uint64_t number) : of_(&of), number_(number) {}
    Call(Call&& other) noexcept : of_(std::exchange(other.of_, nullptr)), number_(other.number_) {}
    Call& operator=(Call&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(number_, other.number_);
      return *this;
    }
    ~Call() {
      if (of_) of_->forget(number_);
    }

   private:
    Interruption* of_ = nullptr;
    std::uint64_t number_ = 0;
  };

  void raise() {
    const std::lock_guard lock(mutex_);
    if (raised_.exchange(true)) return;
    for (const auto& [number, end] : calls_) end();
  }
  bool raised() const { return raised_.load(std::memory_order_relaxed); }
  /// Throws Error once the interruption is raised.
  void check() const {
    if (raised()) throw Error("this rank was told that the world changes");
  }
  /// `end` must not block and not throw; it is called by the thread that raises the interruption,
  /// or at once if it is raised already.
  [[nodiscard]] Call when_raised(std::function<void()> end) {
    const std::lock_guard lock(mutex_);
    if (raised()) end();
    calls_.emplace(++last_, std::move(end));
    return {*this, last_};
  }

 private:
  void forget(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    calls_.erase(number);
  }

  std::mutex mutex_;
  std::atomic<bool> raised_ = false;
  std::map<std::uint64_t, std::function<void()>> calls_;
  std::uint64_t last_ = 0;
};

}  // namespace ringside
