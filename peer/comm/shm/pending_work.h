// The Work of an operation that one thread begins and another thread carries out.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/comm/communicator.h"

namespace ringside::peer {

/// The state of an operation that another thread carries out.
struct Pending {
  Work::Span span;
  bool done = false;
  std::string error;  // empty: it succeeded
};

class PendingWork : public Work {
 public:
  using Lock = std::unique_lock<std::mutex>;

  /// `mutex` guards `pending`, and outlives the work. `finish` is called with the mutex held,
  /// blocks until the operation is done, and releases the mutex meanwhile.
  PendingWork(std::shared_ptr<const Pending> pending, std::mutex& mutex,
              std::function<void(Lock&)> finish)
      : pending_(std::move(pending)), mutex_(mutex), finish_(std::move(finish)) {}
  ~PendingWork() override { finish(); }

  void wait() override {
    finish();
    if (!pending_->error.empty()) throw Error("{}", pending_->error);
  }
  bool ready() override {
    const Lock lock(mutex_);
    return pending_->done;
  }
  Span span() const override { return pending_->span; }

 private:
  void finish() {
    Lock lock(mutex_);
    finish_(lock);
  }

  std::shared_ptr<const Pending> pending_;
  std::mutex& mutex_;
  std::function<void(Lock&)> finish_;
};

}  // namespace ringside::peer
