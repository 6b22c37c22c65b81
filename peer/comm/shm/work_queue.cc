#include "peer/comm/shm/work_queue.h"

#include <exception>

#include "core/base/error.h"

namespace ringside::peer {

class WorkQueue::QueuedWork : public Work {
 public:
  QueuedWork(WorkQueue& queue, OperationPtr operation)
      : queue_(queue), operation_(std::move(operation)) {}
  ~QueuedWork() override { queue_.wait(operation_); }

  void wait() override {
    queue_.wait(operation_);
    if (!operation_->error.empty()) throw Error("{}", operation_->error);
  }
  bool ready() override {
    const std::lock_guard lock(queue_.mutex_);
    return operation_->done;
  }
  Span span() const override { return operation_->span; }

 private:
  WorkQueue& queue_;
  OperationPtr operation_;
};

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

WorkPtr WorkQueue::submit(std::function<void()> run) {
  auto operation = std::make_shared<Operation>();
  operation->run = std::move(run);
  operation->span.begin = device_.mark();
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(operation);
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_one();
  return std::make_unique<QueuedWork>(*this, std::move(operation));
}

WorkQueue::Turn::Turn(WorkQueue& queue) : queue_(queue) {
  std::unique_lock lock(queue_.mutex_);
  while (queue_.busy_ || !queue_.queue_.empty()) {
    if (queue_.busy_)
      queue_.finished_.wait(lock);
    else
      queue_.run_first(lock);
  }
  queue_.busy_ = true;
}

WorkQueue::Turn::~Turn() {
  const std::lock_guard lock(queue_.mutex_);
  queue_.busy_ = false;
  queue_.finished_.notify_all();
  if (!queue_.queue_.empty()) queue_.changed_.notify_one();
}

void WorkQueue::wait(const OperationPtr& operation) {
  std::unique_lock lock(mutex_);
  while (!operation->done) {
    if (busy_)
      finished_.wait(lock);
    else
      run_first(lock);
  }
}

void WorkQueue::run_first(std::unique_lock<std::mutex>& lock) {
  const OperationPtr operation = queue_.front();
  queue_.pop_front();
  busy_ = true;
  lock.unlock();
  try {
    operation->run();
  } catch (const std::exception& e) {
    operation->error = e.what();
  }
  operation->run = nullptr;  // lets go of the tensors
  operation->span.end = device_.mark();
  lock.lock();
  operation->done = true;
  busy_ = false;
  finished_.notify_all();
  if (!queue_.empty()) changed_.notify_one();
}

void WorkQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !busy_ && (ending_ || !queue_.empty()); });
    if (queue_.empty()) return;
    run_first(lock);
  }
}

}  // namespace ringside::peer
