#include "experiments/runner/hosts/refusals.h"

#include <fmt/format.h>

namespace ringside::runner {

Refusals::~Refusals() { say_counted(); }

void Refusals::add(const std::string& cause, std::size_t count) {
  look();
  total_ += count;
  if (said_ < most_causes && count > 0 && known_.insert(cause).second) {
    ++said_;
    --count;
    say_(cause);
  }
  counted_ += count;
  if (count > 0) last_ = cause;
}

void Refusals::look() {
  if (now_() - since_ < interval_s) return;
  say_counted();
  since_ = now_();
  said_ = 0;
}

void Refusals::say_counted() {
  if (counted_ > 0)
    say_(fmt::format("{} more like that within {:.0f} s; the last: {}", counted_, now_() - since_,
                     last_));
  counted_ = 0;
}

}  // namespace ringside::runner
