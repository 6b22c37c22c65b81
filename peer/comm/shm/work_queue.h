// A queue of operations that run one after another, on a thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/comm/communicator.h"
#include "peer/comm/shm/pending_work.h"

namespace ringside::peer {

class WorkDone : public Work {
 public:
  explicit WorkDone(const Span& span) : span_(span) {}
  void wait() override {}
  bool ready() override { return true; }
  Span span() const override { return span_; }

 private:
  Span span_;
};

/// Runs operations in order, on a thread of its own. A thread that waits for an operation runs the
/// queued operations itself while no other thread runs one.
class WorkQueue {
 public:
  explicit WorkQueue(Device& device) : device_(device) {}
  /// Runs the remaining operations.
  ~WorkQueue();

  /// Queues an operation. The work's wait() throws Error with the text of the exception of
  /// `operation`. Within complete() runs the operation at once, and lets its exceptions pass.
  template <class Body>
  WorkPtr submit(Body operation) {
    if (!at_once_) return push(std::move(operation));
    Work::Span span{.begin = device_.mark(), .end = {}};
    run(operation);
    span.end = device_.mark();
    return std::make_unique<WorkDone>(span);
  }
  /// Communicator::complete(): `begin` submits one operation, which the calling thread runs.
  void complete(const std::function<WorkPtr()>& begin);
  /// Runs an operation in its turn, on the calling thread: no thread has to be woken, which takes
  /// longer than a small operation. Throws what `operation` throws.
  template <class Body>
  void run(const Body& operation) {
    const Turn turn(*this);
    operation();
  }

 private:
  struct Operation : Pending {
    std::function<void()> run;
  };
  using OperationPtr = std::shared_ptr<Operation>;

  /// Holds the queue for the calling thread, once all earlier operations are over.
  class Turn {
   public:
    explicit Turn(WorkQueue& queue);
    ~Turn();

   private:
    WorkQueue& queue_;
  };

  WorkPtr push(std::function<void()> run);
  void wait(std::unique_lock<std::mutex>& lock, const Operation& operation);
  /// Runs the first operation; `lock` is released meanwhile.
  void run_first(std::unique_lock<std::mutex>& lock);
  void work();

  Device& device_;
  std::mutex mutex_;
  std::condition_variable changed_;  // there is work and no thread runs it, or the queue ends
  std::condition_variable finished_;
  std::deque<OperationPtr> queue_;
  bool busy_ = false;
  bool ending_ = false;
  bool at_once_ = false;  // the caller waits for the operation that it begins
  std::thread thread_;    // started by the first submit()
};

}  // namespace ringside::peer
