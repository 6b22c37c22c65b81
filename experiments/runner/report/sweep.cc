#include "experiments/runner/report/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "core/base/named_enum.h"
#include "core/plan/same_run.h"
#include "experiments/runner/report/ranking.h"

namespace ringside::runner {
namespace {

using ValueByKey = std::map<std::string, std::string>;

/// The settings of the sweep for the case.
ValueByKey swept_of(const CaseSummary& one) {
  ValueByKey out;
  for (const Setting& setting : one.plan.listing.swept) out[setting.key] = setting.value;
  return out;
}

/// The values of every swept key, in the order in which the cases have them.
std::map<std::string, std::vector<std::string>> values_of(
    const std::vector<const CaseSummary*>& cases) {
  std::map<std::string, std::vector<std::string>> out;
  for (const CaseSummary* one : cases)
    for (const auto& [key, value] : swept_of(*one)) {
      std::vector<std::string>& values = out[key];
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
  return out;
}

/// Whether the case belongs to a table whose other keys have the values `fixed`.
bool belongs(const CaseSummary& one, const ValueByKey& fixed) {
  const ValueByKey own = swept_of(one);
  return std::all_of(fixed.begin(), fixed.end(), [&](const auto& setting) {
    const auto found = own.find(setting.first);
    return found == own.end() || found->second == setting.second;
  });
}

/// All combinations of values of all keys except `key`.
std::vector<ValueByKey> combinations(const std::map<std::string, std::vector<std::string>>& all,
                                     const std::string& key) {
  std::vector<ValueByKey> out = {{}};
  for (const auto& [other, values] : all) {
    if (other == key) continue;
    std::vector<ValueByKey> longer;
    for (const ValueByKey& one : out)
      for (const std::string& value : values) {
        ValueByKey& next = longer.emplace_back(one);
        next[other] = value;
      }
    out = std::move(longer);
  }
  return out;
}

/// What the table shows of a case; negative if there is nothing to show.
double figure_of(const CaseSummary& one, SweepQuantity quantity) {
  if (!one.finished()) return -1;
  if (quantity == SweepQuantity::samples_per_s) return one.samples_per_s;
  return one.time_to_loss && one.time_to_loss->seconds ? one.time_to_loss->seconds->median : -1;
}

bool may_be_ranked(const CaseSummary& one, SweepQuantity quantity) {
  const bool same_work =
      quantity == SweepQuantity::seconds_to_loss || one.plan.promise == Promise::same_run;
  return figure_of(one, quantity) >= 0 && same_work && one.verdict.proof != Proof::different &&
         !shares_device(one.plan);
}

/// The cases, by line, that lead among those that may be ranked.
std::vector<int> leading_of(const std::vector<const CaseSummary*>& ranked, SweepQuantity quantity) {
  const bool time = quantity == SweepQuantity::seconds_to_loss;
  const auto faster = [&](const CaseSummary& one, const CaseSummary& other) {
    const double a = figure_of(one, quantity), b = figure_of(other, quantity);
    return time ? a < b : a > b;
  };
  const CaseSummary* first = nullptr;
  for (const CaseSummary* one : ranked)
    if (one && (!first || faster(*one, *first))) first = one;
  std::vector<int> out;
  if (!first || !(time ? has_time_interval(*first) : has_interval(*first))) return out;
  for (std::size_t l = 0; l < ranked.size(); ++l)
    if (ranked[l] && (ranked[l] == first || !(time ? told_apart_in_time(*ranked[l], *first)
                                                   : told_apart(*ranked[l], *first))))
      out.push_back(static_cast<int>(l));
  return out;
}

SweepTable table_of(const std::vector<const CaseSummary*>& cases, const std::string& key,
                    const std::vector<std::string>& values, const ValueByKey& fixed, int world,
                    SweepQuantity quantity) {
  SweepTable table{.quantity = quantity,
                   .key = key,
                   .fixed = fmt::format("world {}", world),
                   .world = world,
                   .others = fixed,
                   .values = values,
                   .lines = {},
                   .leading = {}};
  std::vector<std::vector<const CaseSummary*>> ranked(values.size());  // by value and line
  for (const auto& [other, value] : fixed) table.fixed += fmt::format(", {} = {}", other, value);
  for (const CaseSummary* one : cases) {
    if ((one->plan.world != world && one->plan.scheme != reference_scheme) || !belongs(*one, fixed))
      continue;
    auto line = std::find_if(table.lines.begin(), table.lines.end(), [&](const auto& known) {
      return known.family == one->plan.listing.family;
    });
    if (line == table.lines.end()) {
      line = table.lines.insert(
          table.lines.end(),
          {one->plan.listing.family, std::vector<double>(values.size(), -1.0),
           std::vector<bool>(values.size()), one->plan.promise != Promise::same_run});
      for (auto& of_value : ranked) of_value.push_back(nullptr);
    }
    const ValueByKey own = swept_of(*one);
    const auto value = own.find(key);
    for (std::size_t v = 0; v < values.size(); ++v)
      if (one->finished() && (value == own.end() || value->second == values[v])) {
        line->figures[v] = figure_of(*one, quantity);
        line->ranked[v] = may_be_ranked(*one, quantity);
        if (line->ranked[v]) ranked[v][static_cast<std::size_t>(line - table.lines.begin())] = one;
      }
  }
  for (const auto& of_value : ranked) table.leading.push_back(leading_of(of_value, quantity));
  return table;
}

}  // namespace

std::vector<SweepTable> sweep_of(const std::vector<CaseSummary>& cases) {
  std::vector<const CaseSummary*> asked;
  std::set<int> worlds;
  for (const CaseSummary& one : cases)
    if (one.plan.purpose == Purpose::asked) asked.push_back(&one);
  const auto all = values_of(asked);
  if (all.empty()) return {};
  std::vector<std::string> keys;  // the one with the most values first
  for (const auto& [key, values] : all) keys.push_back(key);
  std::stable_sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
    return all.at(a).size() > all.at(b).size();
  });
  for (const CaseSummary* one : asked)
    if (one->plan.scheme != reference_scheme) worlds.insert(one->plan.world);
  std::vector<SweepTable> tables;
  const auto add = [&](SweepQuantity quantity, const std::string& key) {
    const bool longest = key == keys.front();
    if (!longest && all.at(key).size() == 1) return;
    for (const int world : worlds)
      for (const ValueByKey& fixed : combinations(all, key)) {
        tables.push_back(table_of(asked, key, all.at(key), fixed, world, quantity));
        tables.back().number = static_cast<int>(tables.size());
        tables.back().longest = longest;
      }
  };
  for (const std::string& key : keys) add(SweepQuantity::samples_per_s, key);
  const bool timed = std::any_of(asked.begin(), asked.end(), [](const CaseSummary* one) {
    return figure_of(*one, SweepQuantity::seconds_to_loss) >= 0;
  });
  for (const std::string& key : keys)
    if (timed) add(SweepQuantity::seconds_to_loss, key);
  return tables;
}

std::vector<Crossover> crossovers(const SweepTable& table) {
  std::vector<Crossover> out;
  std::optional<std::size_t> last;
  for (std::size_t v = 0; v < table.values.size(); ++v) {
    const int fastest = table.fastest(v);
    if (fastest < 0) continue;
    if (last && table.fastest(*last) != fastest)
      out.push_back({*last, v, static_cast<std::size_t>(table.fastest(*last)),
                     static_cast<std::size_t>(fastest)});
    last = v;
  }
  return out;
}

std::vector<TableLine> sweep_lines(const SweepTable& table) {
  const bool time = table.quantity == SweepQuantity::seconds_to_loss;
  TableLine names = {fmt::format("{}, {}", name_of(table.quantity), table.fixed)};
  for (const std::string& value : table.values)
    names.push_back(fmt::format("{} {}", names.size() == 1 ? table.key : "", value));
  std::vector<TableLine> lines = {names};
  for (std::size_t l = 0; l < table.lines.size(); ++l) {
    TableLine& line = lines.emplace_back(TableLine{table.lines[l].family});
    for (std::size_t v = 0; v < table.values.size(); ++v) {
      const double figure = table.lines[l].figures[v];
      const bool fastest = table.fastest(v) == static_cast<int>(l);
      if (figure < 0)
        line.push_back("-");
      else
        line.push_back(fmt::format("{0}{1}{2}{0}", fastest ? "**" : "",
                                   time ? fmt::format("{:.3g}", figure) : per_second(figure),
                                   table.lines[l].own_algorithm && !time ? "*" : ""));
    }
  }
  return lines;
}

/// The lines that lead at the value, as in "dp or ddp".
static std::string leaders_text(const SweepTable& table, std::size_t value) {
  std::vector<std::string_view> names;
  for (const int line : table.leading[value])
    names.push_back(table.lines[static_cast<std::size_t>(line)].family);
  const auto ranked = std::count_if(table.lines.begin(), table.lines.end(),
                                    [&](const auto& line) { return line.ranked[value]; });
  if (names.size() > 2 && static_cast<std::ptrdiff_t>(names.size()) == ranked) return "any line";
  return one_of(names);
}

std::string changes_text(const SweepTable& table) {
  std::vector<std::string> parts;
  for (std::size_t v = 0; v < table.values.size(); ++v) {
    if (table.leading[v].empty() || (v > 0 && table.leading[v] == table.leading[v - 1])) continue;
    std::size_t end = v + 1;
    while (end < table.values.size() && table.leading[end] == table.leading[v]) ++end;
    std::string where = fmt::format("at {}", table.values[v]);
    if (end > v + 1)
      where = end == table.values.size()
                  ? fmt::format("from {} on", table.values[v])
                  : fmt::format("from {} to {}", table.values[v], table.values[end - 1]);
    parts.push_back(fmt::format("{} {}{}", leaders_text(table, v), where,
                                table.fastest(v) < 0 ? " (not told apart)" : ""));
  }
  if (parts.empty()) return "";
  return fmt::format("Fastest: {}.\n", fmt::join(parts, "; "));
}

std::string sweep_tables(const std::vector<CaseSummary>& cases) {
  std::string out;
  for (const SweepTable& table : sweep_of(cases)) {
    if (!table.longest) continue;
    if (!out.empty()) out += "\n";
    out += text_table(sweep_lines(table));
    if (const std::string changes = changes_text(table); !changes.empty()) out += "\n" + changes;
  }
  return out;
}

}  // namespace ringside::runner
