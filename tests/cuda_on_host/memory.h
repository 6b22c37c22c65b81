// What streams need to know of memory.
#pragma once

namespace cuda_on_host {

/// Pools give back what they hold above their thresholds, as whenever the host waited.
void trim_pools_to_thresholds();

}  // namespace cuda_on_host
