#include "experiments/tools/watch/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <ostream>

#include "experiments/runner/report/text_table.h"

namespace ringside::tools::watch {
namespace {

constexpr std::string_view erase_to_end_of_line = "\x1b[K", erase_below = "\x1b[J";
constexpr TerminalSize customary{80, 24};

}  // namespace

TerminalSize terminal_size(int file, const std::vector<std::string>& environment) {
  if (!isatty(file) || std::count(environment.begin(), environment.end(), "TERM=dumb") > 0)
    return {};
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) != 0) return customary;
  return {size.ws_col > 0 ? size.ws_col : customary.columns,
          size.ws_row > 0 ? size.ws_row : customary.rows};
}

std::string in_columns(const std::string& text, int columns) {
  constexpr std::string_view dots = "...";
  const auto room = static_cast<std::size_t>(std::max(columns, 0));
  std::string out = text;
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
  if (runner::columns_of(out) <= room) return out;
  const std::size_t kept = room > dots.size() ? room - dots.size() : room;
  std::size_t end = 0, taken = 0;
  while (end < out.size() && ((out[end] & 0xC0) == 0x80 || taken < kept))
    taken += (out[end++] & 0xC0) != 0x80;
  out.erase(end);
  return room > dots.size() ? out + std::string(dots) : out;
}

std::string TerminalBlock::to_the_top() const {
  // Lines that have become wider than the terminal since they were drawn take several rows now.
  const int columns = std::max(1, size_().columns);
  int rows = 0;
  for (const int drawn : drawn_) rows += std::max(1, (drawn + columns - 1) / columns);
  return rows > 0 ? fmt::format("\r\x1b[{}A", rows) : "";
}

void TerminalBlock::draw(const std::vector<std::string>& lines) {
  std::string text = to_the_top();
  if (in_a_line_) text += '\n';
  in_a_line_ = false;
  drawn_.clear();
  for (const std::string& line : lines) {
    text += fmt::format("{}{}\n", line, erase_to_end_of_line);
    drawn_.push_back(static_cast<int>(runner::columns_of(line)));
  }
  out_ << text << erase_below << std::flush;  // the echo of a key may be below the block
}

void TerminalBlock::leave() {
  if (!drawn_.empty()) print("");
}

void TerminalBlock::print(std::string_view text) {
  std::string all = to_the_top();
  if (!drawn_.empty()) all += erase_below;
  drawn_.clear();
  out_ << all.append(text) << std::flush;  // at once, so that no echo comes in between
  if (!text.empty()) in_a_line_ = text.back() != '\n';
}

}  // namespace ringside::tools::watch
