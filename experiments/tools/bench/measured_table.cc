#include "experiments/tools/bench/measured_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "core/base/error.h"

namespace ringside::tools::bench {
namespace {

using nlohmann::json;

/// Collects rows, and throws Error for those that cannot be.
class Rows {
 public:
  void add(std::int64_t size, double us, const std::string& place) {
    if (size < 1) return;  // nccl-tests also times arrays without elements
    if (!(us > 0) || !std::isfinite(us))
      throw Error("{}: a time of {} us for {} bytes", place, us, size);
    if (!us_.try_emplace(size, us).second)
      throw Error("{}: {} bytes come twice; keep the rows of one operation and type alone", place,
                  size);
  }
  MeasuredTable table(std::int64_t ranks, const std::filesystem::path& file) const {
    if (us_.empty())
      throw Error(
          "{}: there are no rows; give the output of a program of nccl-tests, or the JSON that it "
          "writes with -J",
          file.string());
    MeasuredTable out{.ranks = ranks};
    for (const auto& [size, us] : us_) {
      out.sizes.push_back(size);
      out.us.push_back(us);
    }
    return out;
  }

 private:
  std::map<std::int64_t, double> us_;
};

template <class Number>
bool read_number(const std::string& text, Number& out) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  return problem == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

/// Throws Error unless the bandwidth, in GB/s, is size / time as far as printed digits tell. A
/// column of another meaning does not pass for a time.
void check_bandwidth(std::int64_t size, double us, double algbw, const std::string& place) {
  constexpr double last_digit = 0.01, relative = 0.02;
  const double expected = 1e-3 * static_cast<double>(size) / us;
  if (us > 0 && std::abs(algbw - expected) > last_digit + relative * expected)
    throw Error(
        "{}: {} bytes in {} us are {:.2f} GB/s, but algbw says {}; give the output as nccl-tests "
        "printed it",
        place, size, us, expected, algbw);
}

/// The columns of a table of nccl-tests, by the names in its headings: two measurements, out of
/// place and in place, each with a time and an algbw.
class Columns {
 public:
  /// The columns that a line of headings names; nothing if the line is none.
  static std::optional<Columns> in(std::vector<std::string> cells) {
    if (!cells.empty() && cells[0] == "#") cells.erase(cells.begin());
    Columns out;
    out.names_ = std::move(cells);
    const auto& names = out.names_;
    if (names.empty() || names[0] != "size") return {};
    for (std::size_t i = 0; i + 1 < names.size(); ++i)
      if (names[i] == "time" && names[i + 1] == "algbw") out.times_.push_back(i);
    return out.times_.empty() ? std::nullopt : std::optional(out);
  }

  /// Adds the row's first measurement that is there.
  void add(const std::vector<std::string>& cells, Rows& rows, const std::string& place) const {
    std::int64_t size = 0;
    read_number(cells[0], size);
    // Some releases leave the cell of redop or root empty, so columns are counted from the end.
    const std::size_t empty = names_.size() - std::min(names_.size(), cells.size());
    for (const std::size_t time : times_) {
      double us = 0, algbw = 0;
      if (time < empty + 1 || time + 1 - empty >= cells.size()) continue;
      if (!read_number(cells[time - empty], us)) continue;  // "N/A"
      if (!read_number(cells[time + 1 - empty], algbw)) break;
      check_bandwidth(size, us, algbw, place);
      return rows.add(size, us, place);
    }
    throw Error("{}: the row has no time and algbw where the headings have them ({})", place,
                fmt::join(names_, ", "));
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::size_t> times_;  // the algbw of each stands in the next column
};

MeasuredTable read_columns(const std::string& text, const std::filesystem::path& file) {
  Rows rows;
  std::set<std::int64_t> ranks;
  std::optional<Columns> columns;
  std::istringstream lines(text);
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string place = fmt::format("{}:{}", file.string(), number);
    const std::vector<std::string> cells = words_of(line);
    if (auto headings = Columns::in(cells)) columns = std::move(headings);
    std::int64_t rank = 0, size = 0, count = 0;
    if (cells.size() > 3 && cells[0] == "#" && cells[1] == "Rank" && read_number(cells[2], rank))
      ranks.insert(rank);  // "#  Rank  3 Group  0 Pid ..."
    if (cells.size() < 2 || !read_number(cells[0], size) || !read_number(cells[1], count))
      continue;  // what other programs print around the table
    if (!columns)
      throw Error(
          "{}: a row without headings above it; give the whole output of nccl-tests, with its line "
          "\"# size count type ... time algbw busbw\"",
          place);
    columns->add(cells, rows, place);
  }
  return rows.table(static_cast<std::int64_t>(ranks.size()), file);
}

/// The ranks that nccl-tests lists, wherever in its JSON.
std::int64_t listed_ranks(const json& all) {
  std::set<std::int64_t> ranks;
  const std::function<void(const json&)> look = [&](const json& part) {
    if (part.is_object() && part.contains("rank") && part["rank"].is_number_integer())
      ranks.insert(part["rank"].get<std::int64_t>());
    if (part.is_structured())
      for (const json& inner : part) look(inner);
  };
  look(all);
  return static_cast<std::int64_t>(ranks.size());
}

double time_of(const json& row, std::int64_t size, const std::string& place) {
  for (const char* where : {"out_of_place", "in_place"}) {
    const auto times = row.find(where);
    if (times == row.end() || !times->is_object()) continue;
    for (const char* key : {"time_us", "time", "p50"}) {
      if (!times->contains(key)) continue;
      const auto us = times->at(key).get<double>();
      for (const char* bandwidth : {"alg_bw", "algbw"})
        if (times->contains(bandwidth))
          check_bandwidth(size, us, times->at(bandwidth).get<double>(), place);
      return us;
    }
  }
  throw Error("a row has no out_of_place.time and no in_place.time");
}

MeasuredTable read_rows(const json& all, const std::filesystem::path& file,
                        const std::string& operation, std::int64_t world) {
  Rows rows;
  std::int64_t ranks = listed_ranks(all);
  try {
    for (const json& row : all.at("results")) {
      if (row.value("operation", operation) != operation) continue;
      if (row.contains("world")) {
        const auto of_row = row["world"].get<std::int64_t>();
        if (world != 0 && of_row != world) continue;
        if (ranks != 0 && ranks != of_row)
          throw Error("there are rows of {} and of {} ranks; give world", ranks, of_row);
        ranks = of_row;
      }
      const auto size = row.at("size").get<std::int64_t>();
      rows.add(size, time_of(row, size, file.string()), file.string());
    }
  } catch (const json::exception& error) {
    throw Error("{}: no JSON of nccl-tests (-J) or bench comm: {}", file.string(), error.what());
  } catch (const Error& error) {
    const std::string what = error.what();
    throw Error("{}{}", what.starts_with(file.string()) ? "" : file.string() + ": ", what);
  }
  return rows.table(ranks, file);
}

}  // namespace

MeasuredTable read_measured_table(const std::filesystem::path& file, const std::string& operation,
                                  std::int64_t world) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw Error("{}: no such file, or it cannot be read", file.string());
  const json all = json::parse(text, nullptr, false);
  return all.is_object() ? read_rows(all, file, operation, world) : read_columns(text, file);
}

}  // namespace ringside::tools::bench
