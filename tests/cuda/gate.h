// Streams that stand still for as long as a test wants.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

namespace ringside {

/// Makes the stream stand still: tasks that are enqueued later do not begin before the gate opens.
/// The destructor opens the gate. If the gate stays closed for 10 s, the stream goes on and the
/// test fails; so a test in which the host waits for the stream does not hang.
class Gate {
 public:
  explicit Gate(void* stream) {
    auto wait = [](void* passage) {
      const std::unique_ptr<Passage> own(static_cast<Passage*>(passage));
      own->passed.set_value(own->opened.wait_for(std::chrono::seconds(10)) ==
                            std::future_status::ready);
    };
    auto passage = std::make_unique<Passage>(Passage{opened_.get_future(), {}});
    passed_ = passage->passed.get_future();
    if (cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), wait, passage.get()) == cudaSuccess)
      passage.release();
    else
      ADD_FAILURE() << "cudaLaunchHostFunc failed";
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Opens the gate, and blocks until the stream goes on.
  void open() {
    if (is_open_) return;
    is_open_ = true;
    opened_.set_value();
    EXPECT_TRUE(passed_.get()) << "the host waited for a stream that stood still";
  }

 private:
  struct Passage {
    std::future<void> opened;
    std::promise<bool> passed;
  };
  std::promise<void> opened_;
  std::future<bool> passed_;
  bool is_open_ = false;
};

}  // namespace ringside
