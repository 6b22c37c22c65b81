// Fibers: several stacks that take turns on one thread. A fiber runs until it hands over.
#pragma once

#include <cstddef>

namespace cuda_on_host {

/// Returns a context on the stack that ends at `top`. The first switch_context() to it calls
/// `entry`, which must never return.
void* make_context(void* top, void (*entry)());
/// Continues at `to`, and stores in `from` the context in which the caller can be continued.
void switch_context(void** from, void* to);

/// A fiber, which has a stack of its own. A fiber that is made by the default constructor has the
/// stack of the thread itself. A fiber stays on its thread.
class Fiber {
 public:
  Fiber();
  /// Throws nothing; ends the program if there is no memory for the stack.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  /// Called on the fiber that runs now; returns when some fiber switches back to it.
  void switch_to(Fiber& to);
  /// Every `entry` must call this first.
  static void begin();

 private:
  std::byte* stack_ = nullptr;
  std::size_t size_ = 0;
  bool is_thread_;
  void* context_ = nullptr;
  void* sanitizer_ = nullptr;
};

}  // namespace cuda_on_host
