// Switches stacks with swapcontext(), which does not depend on the processor.
#include <ucontext.h>

#include <new>

#include "tests/cuda_on_host/driver.h"
#include "tests/cuda_on_host/fiber.h"

namespace cuda_on_host {

void* make_context(void* top, void (*entry)()) {
  // The context lies above the stack on which `entry` will run.
  auto* place = static_cast<std::byte*>(top) - (sizeof(ucontext_t) + 63) / 64 * 64;
  auto* context = new (place) ucontext_t;
  getcontext(context);
  constexpr std::size_t room = 32 << 10;  // less than the stack has below `place`
  context->uc_stack.ss_sp = place - room;
  context->uc_stack.ss_size = room;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}

void switch_context(void** from, void* to) {
  ucontext_t here;
  *from = &here;
  if (swapcontext(&here, static_cast<ucontext_t*>(to)) != 0) fail("swapcontext failed");
}

}  // namespace cuda_on_host
