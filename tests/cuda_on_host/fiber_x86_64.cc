// Switching stacks on x86-64: what a call keeps goes onto the stack. Ten times as fast as
// swapcontext(), which asks the kernel for the signal mask.
#include <cstdint>

#include "tests/cuda_on_host/fiber.h"

extern "C" void cuda_on_host_switch(void** from, void* to);

asm(R"(
.text
.type cuda_on_host_switch, @function
.hidden cuda_on_host_switch
cuda_on_host_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_on_host_switch, .-cuda_on_host_switch
)");

namespace cuda_on_host {

void* make_context(void* top, void (*entry)()) {
  // Six registers, where to go, and where that would return to: an entry finds its stack as after
  // a call.
  auto* at = static_cast<void**>(top) - 8;
  for (int i = 0; i < 8; ++i) at[i] = nullptr;
  at[6] = reinterpret_cast<void*>(entry);
  return at;
}

void switch_context(void** from, void* to) { cuda_on_host_switch(from, to); }

}  // namespace cuda_on_host
