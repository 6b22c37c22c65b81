#include "experiments/benchmark/measured_table.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/base/error.h"

namespace ringside {
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

MeasuredTable read_columns(const std::string& text, const std::filesystem::path& file) {
  Rows rows;
  std::set<std::int64_t> ranks;
  std::istringstream lines(text);
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string place = fmt::format("{}:{}", file.string(), number);
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    if (cells.empty()) continue;
    if (cells[0] == "#") {  // "#  Rank  3 Group  0 Pid ..."
      std::int64_t rank = 0;
      if (cells.size() > 3 && cells[1] == "Rank" && read_number(cells[2], rank)) ranks.insert(rank);
      continue;
    }
    std::int64_t size = 0, count = 0;
    if (!read_number(cells[0], size) || cells.size() < 2 || !read_number(cells[1], count))
      continue;                      // what other programs print around the table
    constexpr std::size_t time = 5;  // after size, count, type, redop and root
    double us = 0;
    if (cells.size() <= time || !read_number(cells[time], us))
      throw Error("{}: a row has size, count, type, redop, root and time, as nccl-tests writes it",
                  place);
    rows.add(size, us, place);
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

double time_of(const json& row) {
  for (const char* place : {"out_of_place", "in_place"}) {
    const auto times = row.find(place);
    if (times == row.end() || !times->is_object()) continue;
    for (const char* key : {"time_us", "time", "p50"})
      if (times->contains(key)) return times->at(key).get<double>();
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
      rows.add(row.at("size").get<std::int64_t>(), time_of(row), file.string());
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

}  // namespace ringside
