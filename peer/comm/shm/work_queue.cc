#include "peer/comm/shm/work_queue.h"

#include <exception>

#include "core/base/batch_scheduling.h"

namespace ringside::peer {

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WorkQueue::complete(const std::function<WorkPtr()>& begin) {
  at_once_ = true;
  try {
    begin()->wait();
  } catch (...) {
    at_once_ = false;
    throw;
  }
  at_once_ = false;
}

WorkPtr WorkQueue::push(std::function<void()> run) {
  auto operation = std::make_shared<Operation>();
  operation->run = std::move(run);
  operation->span.begin = device_.mark();
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(operation);
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_one();
  return std::make_unique<PendingWork>(
      operation, mutex_, [this, operation](PendingWork::Lock& lock) { wait(lock, *operation); });
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

void WorkQueue::wait(std::unique_lock<std::mutex>& lock, const Operation& operation) {
  while (!operation.done) {
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
  const BatchScheduling scheduling;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !busy_ && (ending_ || !queue_.empty()); });
    if (queue_.empty()) return;
    run_first(lock);
  }
}

}  // namespace ringside::peer
