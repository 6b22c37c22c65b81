// Tables and figures as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringside::runner {

using TableLine = std::vector<std::string>;

/// A Markdown table with aligned columns: the first and the last to the left, the others to the
/// right. Cells of the last column that are wider than `widest_last` do not widen the column. The
/// first line holds the names of the columns.
std::string text_table(const std::vector<TableLine>& lines, std::size_t widest_last = 31);

/// The number of columns of a terminal that UTF-8 text takes, if each of its characters takes one.
std::size_t columns_of(const std::string& text);

/// "rank 2", "ranks 1 and 2", "ranks 0, 1 and 3".
std::string ranks_text(const std::vector<std::int64_t>& ranks);

std::string megabytes(double bytes);
/// The value as text; values that round to 0 have no sign.
std::string milliseconds(double value);
std::string per_second(double value);

}  // namespace ringside::runner
