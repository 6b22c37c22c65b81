// Waits of actors, and the list of the actors that wait.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <simgrid/s4u.hpp>
#include <string>
#include <unordered_map>

#include "core/sim/world.h"

namespace ringside::sim {

/// Blocks one actor until release() or until the timeout. Owned by shared pointers: while one
/// actor calls release(), other actors run and may drop their own pointers to this object.
class Blocker {
 public:
  /// May be called by an actor, and by SimGrid while no actor runs.
  void release() {
    released_ = true;
    semaphore_->release();
  }
  /// Returns false if `timeout_s` seconds (may be infinite) pass without release().
  bool block(double timeout_s) {
    if (std::isinf(timeout_s))
      semaphore_->acquire();
    else
      semaphore_->acquire_timeout(timeout_s);
    return released_;
  }

 private:
  simgrid::s4u::SemaphorePtr semaphore_ = simgrid::s4u::Semaphore::create(0);
  bool released_ = false;
};
using BlockerPtr = std::shared_ptr<Blocker>;

/// The names of all actors, and what each of them waits for if it is blocked.
class Waiting {
 public:
  /// Notes what the calling actor waits for, until the end of the scope.
  class Scope {
   public:
    Scope(Waiting& waiting, const char* what) : waiting_(waiting) {
      waiting_.what_[simgrid::s4u::this_actor::get_pid()] = what;
    }
    ~Scope() { waiting_.what_.erase(simgrid::s4u::this_actor::get_pid()); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Waiting& waiting_;
  };

  void add(simgrid::s4u::ActorPtr actor) { names_[actor->get_pid()] = actor->get_name(); }
  void remove(long pid) { names_.erase(pid); }

  /// The blocked actors, for an error: "'rank 0' for a message, 'rank 1' for an event".
  std::string text() const {
    constexpr std::size_t shown = 8;
    std::string text;
    std::size_t count = 0;
    for (const auto& [pid, name] : names_) {
      const auto what = what_.find(pid);
      if (what == what_.end()) continue;
      if (++count <= shown)
        text += fmt::format("{}'{}' {}", count > 1 ? ", " : "", name, what->second);
    }
    if (count > shown) text += fmt::format(" and {} more", count - shown);
    return text;
  }

 private:
  std::map<long, std::string> names_;
  std::unordered_map<long, const char*> what_;
};

}  // namespace ringside::sim
