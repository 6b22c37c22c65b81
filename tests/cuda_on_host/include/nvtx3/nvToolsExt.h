// NVTX on the host. Tests can look at the ranges that a thread has begun.
#pragma once

/// Returns the level of the new range; the outermost range has level 0.
int nvtxRangePushA(const char* name);
/// Returns the level of the range that ends.
int nvtxRangePop();
