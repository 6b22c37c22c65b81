// Fibers: stacks of their own on one thread, which take turns when they say so.
#pragma once

#include <cstddef>

namespace cuda_on_host {

/// On a stack that ends at `top`: switch_context() to it calls `entry`, which never returns.
void* make_context(void* top, void (*entry)());
/// Goes on at `to` and leaves where this can be gone on with in `from`.
void switch_context(void** from, void* to);

/// Either a stack of its own, or (made by default) that of the thread. Stays on its thread.
class Fiber {
 public:
  Fiber();
  /// Throws nothing; ends the program if there is no memory for the stack.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  /// Called on this one; returns when something switches back.
  void switch_to(Fiber& to);
  /// The first thing that an entry does.
  static void begin();

 private:
  std::byte* stack_ = nullptr;
  std::size_t size_ = 0;
  bool is_thread_;
  void* context_ = nullptr;
  void* sanitizer_ = nullptr;
};

}  // namespace cuda_on_host
