// Stacks of fibers, and the calls that tell sanitizers about these stacks.
#include "tests/cuda_on_host/fiber.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda_on_host/driver.h"

// Functions of the sanitizers. A function is null if the program was built without its sanitizer.
extern "C" {
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* begin, std::size_t size);
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** save, const void* bottom,
                                                  std::size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* saved, const void** bottom,
                                                   std::size_t* size);
}

namespace cuda_on_host {
namespace {

constexpr std::size_t stack_size = 64 << 10;  // pages that are not used take no memory

}  // namespace

Fiber::Fiber() : is_thread_(true) {
  pthread_attr_t attributes;
  void* stack = nullptr;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack, &size_);
  pthread_attr_destroy(&attributes);
  stack_ = static_cast<std::byte*>(stack);
  if (__tsan_get_current_fiber) sanitizer_ = __tsan_get_current_fiber();
}

Fiber::Fiber(void (*entry)()) : size_(stack_size), is_thread_(false) {
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for the stack of a kernel's thread");
  stack_ = static_cast<std::byte*>(memory);
  // The lowest page cannot be accessed: a stack that grows too large ends the program there.
  mprotect(stack_, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
  context_ = make_context(stack_ + size_, entry);
  if (__tsan_create_fiber) sanitizer_ = __tsan_create_fiber(0);
}

Fiber::~Fiber() {
  if (is_thread_) return;
  if (__tsan_destroy_fiber) __tsan_destroy_fiber(sanitizer_);
  // The frames on this stack never return, so the memory that they marked as poisoned would stay
  // so when the pages are used again.
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(stack_, size_);
  munmap(stack_, size_);
}

void Fiber::switch_to(Fiber& to) {
  void* saved = nullptr;
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(&saved, to.stack_, to.size_);
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to.sanitizer_, 0);
  switch_context(&context_, to.context_);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(saved, nullptr, nullptr);
}

void Fiber::begin() {
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
}

}  // namespace cuda_on_host
