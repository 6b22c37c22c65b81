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

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file, const std::string& name)
      : rest_(text), file_(file) {
    out_.name = name;
  }

  Schedule read() {
    while (!trimmed_end().empty()) read_row(take_until(rest_, '\n'));
    if (count_ == 0) throw Error("{}: it has no actions", file_);
    for (std::size_t stage = 0; stage < out_.ranks_of.size(); ++stage)
      if (out_.ranks_of[stage] == no_rank)
        throw Error("{}: no row has stage {}, but there is a stage {}", file_, stage,
                    out_.ranks_of.size() - 1);
    return std::move(out_);
  }

 private:
  /// The rest of the text if any row is left; empty lines at the end are none.
  std::string_view trimmed_end() const {
    return rest_.find_first_not_of(" \t\r\n") == std::string_view::npos ? std::string_view()
                                                                        : rest_;
  }

  void read_row(std::string_view row) {
    out_.actions.emplace_back();
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
      fail(cell, fmt::format("has a number that is not less than {}", most_actions));
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
      fail(cell, fmt::format("is no action such as 2F0; the operations are {}",
                             one_of(names_of(Operation{}))));
    if (is_skipped) return;
    if (!micro_batch) fail(cell, "has no micro-batch");
    add({static_cast<int>(*stage), *operation, *micro_batch}, cell);
  }

  void add(const Action& action, std::string_view cell) {
    if (++count_ > most_actions)
      fail(cell, fmt::format("is one action too many: at most {}", most_actions));
    const auto stage = static_cast<std::size_t>(action.stage);
    const int rank = out_.ranks() - 1;
    if (stage >= out_.ranks_of.size()) out_.ranks_of.resize(stage + 1, no_rank);
    int& of_stage = out_.ranks_of[stage];
    if (of_stage != no_rank && of_stage != rank)
      fail(cell, fmt::format("is of a stage that row {} has", of_stage + 1));
    of_stage = rank;
    out_.micro_batches = std::max(out_.micro_batches, action.micro_batch + 1);
    out_.actions.back().push_back(action);
  }

  std::string_view rest_;
  const std::string& file_;
  std::size_t cell_ = 0;  // from 1, in its row
  std::int64_t count_ = 0;
  Schedule out_{};
};

std::string text_of_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw Error("{}: there is no such file", file.string());
  if (!std::filesystem::is_regular_file(file, error))
    throw Error("{}: it is no file", file.string());
  std::ifstream in(file, std::ios::binary);
  std::string out(most_csv_bytes + 1, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  if (in.bad() || (in.fail() && !in.eof())) throw Error("{}: it cannot be read", file.string());
  out.resize(static_cast<std::size_t>(in.gcount()));
  if (out.size() > most_csv_bytes)
    throw Error("{}: it has more than {} bytes, and is no schedule", file.string(), most_csv_bytes);
  return out;
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

Schedule read_csv(const std::filesystem::path& file) {
  Schedule out = parse_csv(text_of_file(file), file.string(), file.stem().string());
  check(out);
  return out;
}

}  // namespace ringside::pipeline
