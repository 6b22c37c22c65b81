#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/pipeline/picture.h"
#include "core/pipeline/time_grid.h"

namespace ringside::pipeline {
namespace {

std::string label_of(const DrawnAction& one) {
  const char letter = name_of(one.action.operation)[0];
  return (one.is_pale ? static_cast<char>(std::tolower(letter)) : letter) +
         std::to_string(one.action.micro_batch);
}

class TextPicture {
 public:
  TextPicture(const TimeGrid& grid, std::size_t columns) : grid_(grid) {
    std::size_t label = 2;
    for (const auto& lane : grid.lanes())
      for (const DrawnAction& one : lane) label = std::max(label, label_of(one).size());
    prefix_ = fmt::format("rank {} ", grid.lanes().size() - 1).size();
    const std::size_t room = std::max(columns, prefix_ + label) - prefix_;
    slots_ = static_cast<std::size_t>(std::llround(grid.slots()));
    // A space between two names only where there is room for it.
    width_ = slots_ * (label + 1) <= room + 1 ? label + 1 : label;
    shown_ = std::min(slots_, room / width_);
  }

  std::string text() const {
    std::string out;
    for (std::size_t rank = 0; rank < grid_.lanes().size(); ++rank)
      out += fmt::format("{:<{}}{}\n", fmt::format("rank {}", rank), prefix_, lane(rank));
    return out + legend();
  }

 private:
  std::string lane(std::size_t rank) const {
    std::string out(shown_ * width_, ' ');
    for (const DrawnAction& one : grid_.lanes()[rank]) {
      const auto begin = static_cast<std::size_t>(std::llround(one.begin));
      const auto end = std::min(shown_, static_cast<std::size_t>(std::llround(one.end)));
      if (begin < end) draw(out, label_of(one), begin * width_, end * width_);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  }

  /// Leaves the last column free if that leaves the name whole.
  static void draw(std::string& lane, const std::string& label, std::size_t begin,
                   std::size_t end) {
    if (end - begin > label.size()) --end;
    std::fill(lane.begin() + static_cast<std::ptrdiff_t>(begin),
              lane.begin() + static_cast<std::ptrdiff_t>(end), '-');
    lane.replace(begin, label.size(), label);
  }

  std::string legend() const {
    std::string out;
    for (const auto& [operation, meaning] : drawn_operations)
      if (grid_.has(operation)) out += fmt::format("{} {}; ", name_of(operation), meaning);
    if (grid_.has_pale()) out += fmt::format("lower case {}; ", pale_meaning);
    out += fmt::format("a column is {:.4g} s\n", grid_.slot_s());
    if (shown_ < slots_) out += fmt::format("cut off after {} of {} columns\n", shown_, slots_);
    return out;
  }

  const TimeGrid& grid_;
  std::size_t prefix_, slots_, width_, shown_;
};

}  // namespace

std::string picture_text(const Schedule& schedule, const SimulatedSchedule& times,
                         std::size_t columns) {
  const TimeGrid grid(schedule, times);
  return TextPicture(grid, columns).text();
}

}  // namespace ringside::pipeline
