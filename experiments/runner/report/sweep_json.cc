// The tables of a sweep as JSON.
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiments/runner/report/sweep.h"

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

ordered_json value_json(const std::string& text) {
  const std::optional<double> value = number(text);
  return value ? ordered_json(*value) : ordered_json(text);
}

ordered_json line_json(const SweepTable::Line& line) {
  ordered_json figures = ordered_json::array();
  for (const double figure : line.figures)
    figures.push_back(figure < 0 ? ordered_json() : ordered_json(figure));
  return {{"family", line.family},
          {"own_algorithm", line.own_algorithm},
          {"figures", figures},
          {"ranked", line.ranked}};
}

}  // namespace

ordered_json to_json(const SweepTable& table) {
  ordered_json values = ordered_json::array(), lines = ordered_json::array(),
               fastest = ordered_json::array(), leading = ordered_json::array(),
               changes = ordered_json::array();
  bool numeric = true;
  for (const std::string& value : table.values) {
    values.push_back(value_json(value));
    numeric = numeric && values.back().is_number();
  }
  for (const SweepTable::Line& line : table.lines) lines.push_back(line_json(line));
  for (std::size_t v = 0; v < table.values.size(); ++v) {
    ordered_json& leaders = leading.emplace_back(ordered_json::array());
    for (const int line : table.leading[v])
      leaders.push_back(table.lines[static_cast<std::size_t>(line)].family);
    fastest.push_back(table.fastest(v) < 0 ? ordered_json() : leaders.front());
  }
  for (const Crossover& change : crossovers(table))
    changes.push_back({{"after", values[change.after]},
                       {"before", values[change.before]},
                       {"from", table.lines[change.from].family},
                       {"to", table.lines[change.to].family}});
  return {{"quantity", name_of(table.quantity)},
          {"key", table.key},
          {"fixed", table.fixed},
          {"world", table.world},
          {"others", table.others},
          {"values", values},
          {"numeric", numeric},
          {"lines", lines},
          {"fastest", fastest},
          {"leading", leading},
          {"changes", changes}};
}

}  // namespace ringside::runner
