// Threads in the scheduling class SCHED_BATCH, which do not interrupt threads that compute.
#pragma once

namespace ringside {

/// While it lives, the thread that made it, and all threads that this one starts, wait for their
/// turn of a core when they wake up, instead of interrupting the thread that computes there
/// (SCHED_BATCH of Linux, sched(7)); they take idle cores at once. For threads that move bytes: a
/// network wakes them for every few packets, and each time they interrupt they move little. On two
/// hosts with one core a rank and 10 Gb/s between, steps of 4 samples (tests/hosts/shaped_links.py)
/// became 12% shorter with fsdp, 21% with zero2 and 11% with ddp. Where other programs take the
/// cores, they wait longer. Does nothing where the system refuses, or where the thread is scheduled
/// in another way already. To be destroyed by the thread that made it.
class BatchScheduling {
 public:
  BatchScheduling();
  ~BatchScheduling();
  BatchScheduling(const BatchScheduling&) = delete;
  BatchScheduling& operator=(const BatchScheduling&) = delete;

 private:
  bool changed_ = false;
};

}  // namespace ringside
