// NVTX on the host: ranges of a thread, which tests can look at.
#pragma once

/// Returns the level of the new range; the outermost range has level 0.
int nvtxRangePushA(const char* name);
/// Returns the level of the range that ends.
int nvtxRangePop();
