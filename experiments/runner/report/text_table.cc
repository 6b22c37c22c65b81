#include "experiments/runner/report/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/utf8.h"

namespace ringside::runner {

std::size_t columns_of(const std::string& text) { return characters_of(text); }

std::string text_table(const std::vector<TableLine>& lines, std::size_t widest_last) {
  const std::size_t columns = lines[0].size();
  std::vector<std::size_t> width(columns, 3);
  for (const TableLine& line : lines)
    for (std::size_t c = 0; c < columns; ++c)
      if (c + 1 < columns || columns_of(line[c]) <= widest_last)
        width[c] = std::max(width[c], columns_of(line[c]));
  const auto to_left = [&](std::size_t c) { return c == 0 || c + 1 == columns; };
  std::string out;
  for (std::size_t l = 0; l < lines.size(); ++l) {
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t taken = columns_of(lines[l][c]);
      const std::string blanks(width[c] > taken ? width[c] - taken : 0, ' ');
      out += to_left(c) ? "| " + lines[l][c] + blanks + " " : "| " + blanks + lines[l][c] + " ";
    }
    out += "|\n";
    if (l > 0) continue;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string rule(width[c] + 1, '-');
      out += to_left(c) ? "|" + rule + "-" : "|" + rule + ":";
    }
    out += "|\n";
  }
  return out;
}

std::string ranks_text(const std::vector<std::int64_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) out += i + 1 == ranks.size() ? " and " : ", ";
    out += std::to_string(ranks[i]);
  }
  return out;
}

std::string megabytes(double bytes) {
  return fmt::format("{:.{}f}", bytes / 1e6, bytes < 1e8 ? 2 : 0);
}

std::string milliseconds(double value) {
  return fmt::format("{:.1f}", std::abs(value) < 0.05 ? 0.0 : value);
}

std::string per_second(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 2 : 1); }

}  // namespace ringside::runner
