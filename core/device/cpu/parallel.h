// The threads of a CPU kernel, and its calls of oneDNN.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ringside {
class Error;
}

namespace ringside::cpu {

/// The error for an operation for which oneDNN returned `status`, with oneDNN's own explanation if
/// there is one. The usual cause is missing memory, so the error names the limit of memory if one
/// is set.
Error refused_by_onednn(const std::string& operation, int status,
                        std::string_view explanation = {});

/// Makes the next parallel regions of the calling thread run on `threads` threads, whatever
/// OMP_DYNAMIC, OMP_NUM_THREADS and OMP_MAX_ACTIVE_LEVELS say. oneDNN divides its work among the
/// threads that it asks for; if it got fewer threads, a part of the result would not be computed.
/// Throws Error if OMP_THREAD_LIMIT is less than `threads`.
void set_team(int threads);

/// Runs body(begin, end, thread) on up to `threads` threads, `thread` in [0, threads), over
/// disjoint contiguous ranges that cover [0, count). Only the last range may be shorter than
/// `grain`. The threads are those of oneDNN, so parallel_for() and oneDNN never compete for cores.
/// Blocks; rethrows the first exception of a body.
void parallel_for(int threads, std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t, int)>& body);

/// c = alpha * op(a) * op(b) + beta * c, row-major, with op(a) [m, k] and op(b) [k, n]. `ld*` is
/// the number of elements from one row of the stored matrix to the next; `transpose_*` says that op
/// transposes the matrix. gemm() runs on one thread if it is called inside parallel_for, else on
/// `threads`.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  float alpha = 1;
  const float* a = nullptr;
  std::int64_t lda = 0;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float beta = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
};
void gemm(int threads, const Gemm& product);

}  // namespace ringside::cpu
