#include "core/device/cpu/parallel.h"

#include <dnnl.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "core/base/error.h"
#include "core/base/error_text.h"

// Functions of libgomp, the OpenMP runtime that oneDNN uses. They are called directly, without
// OpenMP's pragmas: a compiler with another runtime would translate these to calls of its own
// runtime, which would start a second pool of threads.
extern "C" {
void GOMP_parallel(void (*run)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_thread_num();
int omp_get_num_threads();
int omp_get_thread_limit();
void omp_set_num_threads(int threads);
void omp_set_dynamic(int dynamic);
void omp_set_max_active_levels(int levels);
// Functions of ThreadSanitizer, which are null in programs that are built without it. It cannot see
// how libgomp orders what threads do before, in and after a parallel region.
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
}

namespace ringside::cpu {
namespace {

struct Loop {
  const std::function<void(std::int64_t, std::int64_t, int)>& body;
  std::int64_t count, step;
  std::mutex mutex;
  std::exception_ptr failure;
};

/// Orders memory accesses: those before tell_order() on one thread come before those that another
/// thread makes after it has seen the call.
void tell_order(Loop& loop) {
  if (__tsan_release) __tsan_release(&loop.mutex);
}
void see_order(Loop& loop) {
  if (__tsan_acquire) __tsan_acquire(&loop.mutex);
}

void run_share(void* data) {
  auto& loop = *static_cast<Loop*>(data);
  see_order(loop);
  try {
    const int thread = omp_get_thread_num();
    for (std::int64_t begin = thread * loop.step; begin < loop.count;
         begin += omp_get_num_threads() * loop.step)
      loop.body(begin, std::min(begin + loop.step, loop.count), thread);
  } catch (...) {
    std::lock_guard lock(loop.mutex);
    if (!loop.failure) loop.failure = std::current_exception();
  }
  tell_order(loop);
}

}  // namespace

void set_team(int threads) {
  if (const int limit = omp_get_thread_limit(); threads > limit)
    throw Error("cpu: device.threads = {}, but OMP_THREAD_LIMIT = {}; unset OMP_THREAD_LIMIT",
                threads, limit);
  // All three settings apply to the calling thread only.
  omp_set_dynamic(0);
  omp_set_max_active_levels(1);
  omp_set_num_threads(threads);
}

void parallel_for(int threads, std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t, int)>& body) {
  if (count <= 0) return;
  const std::int64_t wanted = std::min<std::int64_t>(threads, (count + grain - 1) / grain);
  if (wanted <= 1) return body(0, count, 0);
  set_team(threads);
  Loop loop{body, count, std::max((count + wanted - 1) / wanted, grain), {}, {}};
  tell_order(loop);
  GOMP_parallel(run_share, &loop, static_cast<unsigned>(wanted), 0);
  see_order(loop);
  if (loop.failure) std::rethrow_exception(loop.failure);
}

Error refused_by_onednn(const std::string& operation, int status, std::string_view explanation) {
  return Error(
      "{} on the CPU: oneDNN failed with status {}{}; check whether the machine has free memory{}",
      operation, status, explanation.empty() ? "" : fmt::format(" ({})", explanation),
      memory_limit_hint());
}

void gemm(int threads, const Gemm& p) {
  set_team(threads);
  const auto status = dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n,
                                 p.k, p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc);
  if (status != dnnl_success)
    throw refused_by_onednn(fmt::format("matrix product {}x{}x{}", p.m, p.n, p.k), status);
}

}  // namespace ringside::cpu
