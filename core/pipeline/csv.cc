#include "core/pipeline/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/named_enum.h"
#include "core/base/utf8.h"
#include "core/pipeline/activations.h"

namespace ringside::pipeline {
namespace {

constexpr std::string_view skipped_words[] = {"UNSHARD", "RESHARD", "REDUCE_GRAD"};
constexpr int no_rank = -1;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// Takes everything in front of the next `end` from `rest`, and `end` itself.
std::string_view take_until(std::string_view& rest, char end) {
  const std::size_t at = std::min(rest.find(end), rest.size());
  const std::string_view out = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return out;
}

/// A cell as an error shows it.
std::string shown(std::string_view cell) {
  constexpr std::size_t most = 40;
  std::string out;
  for (const char c : cell.substr(0, most))
    out += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  return utf8_text(out) + (cell.size() > most ? "..." : "");
}

constexpr std::string_view utf8_mark = "\xef\xbb\xbf";
constexpr std::string_view utf16_marks[] = {"\xff\xfe", "\xfe\xff"};
constexpr std::string_view to_begin_with =
    "write a row of cells such as 0F0 for each rank (`ringside schedule show 1f1b --csv FILE` "
    "writes a file to begin with)";

/// Where the actions of each rank stand: their cells in its row, from 1.
using Cells = std::vector<std::vector<std::size_t>>;

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file, const std::string& name)
      : rest_(text), file_(file) {
    out_.name = name;
    for (const std::string_view mark : utf16_marks)
      if (text.starts_with(mark))
        throw Error("{}: it is in UTF-16, as its byte-order mark says; save it as UTF-8", file_);
    if (text.starts_with(utf8_mark)) rest_.remove_prefix(utf8_mark.size());
  }

  Schedule read() {
    while (!trimmed_end().empty()) read_row(take_until(rest_, '\n'));
    if (count_ == 0) throw Error("{}: it has no actions; {}", file_, to_begin_with);
    for (std::size_t stage = 0; stage < out_.ranks_of.size(); ++stage)
      if (out_.ranks_of[stage] == no_rank)
        throw Error(
            "{}: no row has stage {}, but there is a stage {}; number stages from 0 on, without "
            "gaps",
            file_, stage, out_.ranks_of.size() - 1);
    return std::move(out_);
  }
  const Cells& cells() const { return cells_; }

 private:
  /// The rest of the text if any row is left; empty lines at the end are none.
  std::string_view trimmed_end() const {
    return rest_.find_first_not_of(" \t\r\n") == std::string_view::npos ? std::string_view()
                                                                        : rest_;
  }

  void read_row(std::string_view row) {
    out_.actions.emplace_back();
    cells_.emplace_back();
    for (cell_ = 1; !row.empty(); ++cell_) {
      const std::string_view cell = trimmed(take_until(row, ','));
      if (!cell.empty()) read_cell(cell);
    }
  }

  [[noreturn]] void fail(std::string_view cell, std::string_view why) const {
    throw Error("{}: row {}, cell {}: '{}' {}", file_, out_.actions.size(), cell_, shown(cell),
                why);
  }

  /// Takes the digits at the begin of `rest`; none if there are none.
  std::optional<std::int64_t> take_number(std::string_view& rest, std::string_view cell) const {
    const auto end = std::find_if_not(rest.begin(), rest.end(), is_digit);
    const auto digits = static_cast<std::size_t>(end - rest.begin());
    if (digits == 0) return {};
    std::int64_t out = 0;
    const auto [last, error] = std::from_chars(rest.data(), rest.data() + digits, out);
    if (error != std::errc() || out >= most_actions)
      fail(cell,
           fmt::format("has a number that is not less than {}; number from 0 on, without gaps",
                       most_actions));
    rest.remove_prefix(digits);
    return out;
  }

  void read_cell(std::string_view cell) {
    std::string_view rest = cell;
    const auto stage = take_number(rest, cell);
    const std::size_t letters =
        static_cast<std::size_t>(std::find_if(rest.begin(), rest.end(), is_digit) - rest.begin());
    const std::string_view word = rest.substr(0, letters);
    rest.remove_prefix(letters);
    const auto micro_batch = take_number(rest, cell);
    const auto operation = value_named<Operation>(word);
    const bool is_skipped = std::find(std::begin(skipped_words), std::end(skipped_words), word) !=
                            std::end(skipped_words);
    if (!stage || !rest.empty() || (!operation && !is_skipped))
      fail(cell,
           fmt::format("is no action; write stage, operation and micro-batch, as in 2F0, with one "
                       "of the operations {}",
                       one_of(names_of(Operation{}))));
    if (is_skipped) return;
    if (!micro_batch)
      fail(cell, "has no micro-batch; write its number behind the operation, as in 2F0");
    add({static_cast<int>(*stage), *operation, *micro_batch}, cell);
  }

  void add(const Action& action, std::string_view cell) {
    if (++count_ > most_actions)
      fail(cell,
           fmt::format("is one action too many, of which at most {} are read; let the schedule "
                       "have fewer micro-batches or stages",
                       most_actions));
    const auto stage = static_cast<std::size_t>(action.stage);
    const int rank = out_.ranks() - 1;
    if (stage >= out_.ranks_of.size()) out_.ranks_of.resize(stage + 1, no_rank);
    int& of_stage = out_.ranks_of[stage];
    if (of_stage != no_rank && of_stage != rank)
      fail(cell,
           fmt::format("is of a stage that row {} has; give all actions of a stage to one row",
                       of_stage + 1));
    of_stage = rank;
    out_.micro_batches = std::max(out_.micro_batches, action.micro_batch + 1);
    out_.actions.back().push_back(action);
    cells_.back().push_back(cell_);
  }

  std::string_view rest_;
  const std::string& file_;
  std::size_t cell_ = 0;  // from 1, in its row
  std::int64_t count_ = 0;
  Schedule out_{};
  Cells cells_{};
};

/// "row 2, cell 3: ", or what is known of it.
std::string place_of(const WrongSchedule& wrong, const Cells& cells) {
  if (wrong.rank == WrongSchedule::everywhere) return {};
  const std::string row = fmt::format("row {}", wrong.rank + 1);
  if (!wrong.action) return row + ": ";
  const auto& of_row = cells[static_cast<std::size_t>(wrong.rank)];
  return fmt::format("{}, cell {}: ", row, of_row[*wrong.action]);
}

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string out;
  for (const auto& actions : schedule.actions) {
    std::string_view before;
    for (const Action& action : actions)
      out.append(std::exchange(before, ",")).append(text_of(action));
    out += "\n";
  }
  return out;
}

Schedule parse_csv(std::string_view text, const std::string& file, const std::string& name) {
  return CsvReader(text, file, name).read();
}

Schedule checked_csv(std::string_view text, const std::string& file, const std::string& name,
                     std::int64_t most_in_flight) {
  CsvReader reader(text, file, name);
  Schedule out = reader.read();
  try {
    check(out);
    check_held(out, most_in_flight);
  } catch (const WrongSchedule& wrong) {
    throw Error("{}: {}{}", file, place_of(wrong, reader.cells()), wrong.told);
  }
  return out;
}

std::string csv_text(const std::filesystem::path& file) {
  constexpr std::string_view remedy = "give the path of a CSV file with a row for each rank";
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found)
    throw Error("{}: there is no such file; {}", file.string(), remedy);
  if (std::filesystem::is_directory(status))
    throw Error("{}: it is a directory; {}", file.string(), remedy);
  if (!error && !std::filesystem::is_regular_file(status))
    throw Error("{}: it is no file; {}", file.string(), remedy);
  std::ifstream in(file, std::ios::binary);
  std::string out(most_csv_bytes + 1, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  if (error || !in.is_open() || in.bad() || (in.fail() && !in.eof()))
    throw Error("{}: it cannot be read; give the file permissions to read it", file.string());
  out.resize(static_cast<std::size_t>(in.gcount()));
  if (out.size() > most_csv_bytes)
    throw Error("{}: it has more than {} bytes, and is no schedule; {}", file.string(),
                most_csv_bytes, remedy);
  return out;
}

Schedule read_csv(const std::filesystem::path& file, std::int64_t most_in_flight) {
  return checked_csv(csv_text(file), file.string(), file.stem().string(), most_in_flight);
}

}  // namespace ringside::pipeline
