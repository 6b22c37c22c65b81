// Tables and figures as text.
#pragma once

#include <string>
#include <vector>

namespace ringside {

using TableLine = std::vector<std::string>;

/// A Markdown table with aligned columns. The first column is aligned to the left, the others to
/// the right. The last column is aligned to the left, and may be wider than `widest_last`. The
/// first line holds the names of the columns.
std::string text_table(const std::vector<TableLine>& lines, std::size_t widest_last = 20);

std::string megabytes(double bytes);
/// The value as text; values that round to 0 have no sign.
std::string milliseconds(double value);
std::string per_second(double value);

}  // namespace ringside
