// NVTX on the host: ranges of a thread, which tests can look at.
#pragma once

/// The level of the range, from 0.
int nvtxRangePushA(const char* name);
/// The level of the range that ended.
int nvtxRangePop();
