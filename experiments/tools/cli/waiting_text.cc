#include "experiments/tools/cli/waiting_text.h"

#include "core/base/error.h"

namespace ringside::tools::cli {

std::string WaitingText::left_out_text(std::size_t bytes) {
  return fmt::format(
      "ringside: {} bytes of output are left out here, because the output was not read in time\n",
      bytes);
}

void WaitingText::append(std::string_view text) {
  const std::size_t waiting = oldest_.size() - taken_;
  if (newest_.empty() && waiting + text.size() <= half_) {
    // Erasing the taken bytes moves the waiting bytes. So the taken bytes are erased only once they
    // are more than the waiting bytes.
    if (taken_ > waiting) {
      oldest_.erase(0, taken_);
      taken_ = 0;
    }
    oldest_ += text;
    return;
  }
  newest_ += text;
  if (newest_.size() <= half_) return;
  std::size_t end = newest_.size() - half_ / 2;
  if (const std::size_t line_feed = newest_.find('\n', end); line_feed < newest_.size() - half_ / 4)
    end = line_feed + 1;
  newest_.erase(0, end);
  left_out_ += end;
}

std::string_view WaitingText::front(std::size_t most) {
  if (taken_ == oldest_.size()) {
    const bool in_a_line = !oldest_.empty() && oldest_.back() != '\n';
    oldest_.clear();
    if (left_out_ > 0) oldest_ = (in_a_line ? "\n" : "") + notice_(left_out_);
    oldest_ += newest_;
    newest_.clear();
    taken_ = left_out_ = 0;
  }
  return std::string_view(oldest_).substr(taken_, most);
}

}  // namespace ringside::tools::cli
