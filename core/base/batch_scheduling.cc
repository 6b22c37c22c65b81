#include "core/base/batch_scheduling.h"

#include <sched.h>

namespace ringside {

// On Linux these calls concern the calling thread alone if they are given 0.

BatchScheduling::BatchScheduling() {
  const sched_param none{};
  changed_ = sched_getscheduler(0) == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &none) == 0;
}

BatchScheduling::~BatchScheduling() {
  const sched_param none{};
  if (changed_) sched_setscheduler(0, SCHED_OTHER, &none);
}

}  // namespace ringside
