#include "experiments/tools/watch/event_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ostream>

#include "core/base/error.h"

namespace ringside::tools::watch {
namespace {

constexpr double step_interval_s = 1;

bool ends_in_a_line(int file) {
  char last = '\n';
  const off_t size = lseek(file, 0, SEEK_END);
  return size > 0 && pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

/// Returns false, with the cause in errno, if the system refuses. A part of the text may then be in
/// the file.
bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

void EventLines::hear(const runner::ProgressEvent& event) {
  out_ << runner::json_line(event) << std::flush;
  ended_ = std::holds_alternative<runner::ComparisonEnded>(event.what);
}

std::string left_out_event(std::size_t bytes) {
  return fmt::format("{{\"event\":\"left_out\",\"bytes\":{}}}\n", bytes);
}

EventFile::EventFile(const OpenFolder& folder, const std::string& name)
    : path_(folder.path() / name), file_(open_to_grow(folder, name)) {
  if (fcntl(file_, F_SETFL, O_APPEND) == 0 && (!ends_in_a_line(file_) || write_all(file_, "\n")))
    return;
  const int cause = errno;
  close(file_);
  throw Error("{}: cannot be written: {}", path_.string(), std::strerror(cause));
}

EventFile::~EventFile() { close(file_); }

void EventFile::hear(const runner::ProgressEvent& event) {
  const auto* step = std::get_if<runner::StepDone>(&event.what);
  if (step) {
    // The time of day may be set back.
    if (std::abs(event.time - last_step_) < step_interval_s) return;
    last_step_ = event.time;
  } else {
    last_step_ = 0;
  }
  if (!write_all(file_, runner::json_line(event)) && !step)
    throw Error("{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

}  // namespace ringside::tools::watch
