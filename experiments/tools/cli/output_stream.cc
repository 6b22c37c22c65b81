#include "experiments/tools/cli/output_stream.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <streambuf>
#include <thread>

#include "core/base/error.h"

namespace ringside::tools::cli {
namespace {

constexpr int poll_ms = 100;

}  // namespace

class OutputStream::Buffer : public std::streambuf {
 public:
  Buffer(int file, std::function<bool()> interrupted, WaitingText waiting)
      : file_(file),
        interrupted_(std::move(interrupted)),
        waiting_(std::move(waiting)),
        thread_([this] { write_all(); }) {}
  ~Buffer() override { finish(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  int finish() {
    {
      std::lock_guard lock(mutex_);
      finishing_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    return failure_;
  }

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    {
      std::lock_guard lock(mutex_);
      if (failure_ != 0 || finishing_) return 0;
      waiting_.append({text, static_cast<std::size_t>(size)});
    }
    changed_.notify_all();
    return size;
  }
  int_type overflow(int_type c) override {
    const char one = traits_type::to_char_type(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }

 private:
  void write_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return finishing_ || !waiting_.empty(); });
      if (waiting_.empty() || failure_ != 0) return;
      // When poll() reports that a pipe is writable, the pipe takes PIPE_BUF bytes without
      // blocking.
      const std::string next(waiting_.front(PIPE_BUF));
      lock.unlock();
      const ssize_t written = write_some(next);
      const int cause = errno;
      lock.lock();
      if (written > 0) waiting_.pop(static_cast<std::size_t>(written));
      if (written < 0 && cause != EINTR && cause != EAGAIN) failure_ = cause;
      if (written == 0 && finishing_ && interrupted_()) failure_ = ECANCELED;
    }
  }

  /// Returns how many bytes were written; 0 if the reader takes nothing now.
  ssize_t write_some(const std::string& text) const {
    pollfd writable{file_, POLLOUT, 0};
    if (poll(&writable, 1, poll_ms) != 1) return 0;
    return ::write(file_, text.data(), text.size());
  }

  const int file_;
  const std::function<bool()> interrupted_;
  std::mutex mutex_;
  std::condition_variable changed_;
  WaitingText waiting_;
  bool finishing_ = false;
  int failure_ = 0;
  std::thread thread_;
};

OutputStream::OutputStream(int file, std::function<bool()> interrupted, std::size_t most_waiting,
                           WaitingText::Notice notice)
    : std::ostream(nullptr),
      buffer_(std::make_unique<Buffer>(file, std::move(interrupted),
                                       WaitingText(most_waiting, std::move(notice)))) {
  rdbuf(buffer_.get());
}

OutputStream::~OutputStream() = default;

int OutputStream::finish() { return buffer_->finish(); }

std::string not_shown(int cause) {
  return fmt::format("standard output cannot be written: {}", std::strerror(cause));
}

}  // namespace ringside::tools::cli
