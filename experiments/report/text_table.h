// Tables and figures as text.
#pragma once

#include <string>
#include <vector>

namespace ringside {

using TableLine = std::vector<std::string>;

/// A Markdown table with aligned columns: the first to the left, the others to the right, the last,
/// which may be wider than `widest_last`, to the left. The first line has the names of the columns.
std::string text_table(const std::vector<TableLine>& lines, std::size_t widest_last = 20);

std::string megabytes(double bytes);
/// Without the sign of what rounds to 0.
std::string milliseconds(double value);
std::string per_second(double value);

}  // namespace ringside
