#include "experiments/runner/report/reproduced.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ringside::runner {
namespace {

using Counts = std::array<int, std::size(agreement_names)>;

template <class Published>
Counts counts_of(const std::vector<Published>& figures) {
  Counts counts{};
  for (const Published& one : figures) ++counts[static_cast<std::size_t>(agreement_of(one))];
  return counts;
}

int count(const Counts& counts, Agreement agreement) {
  return counts[static_cast<std::size_t>(agreement)];
}

int decimals_of_text(const std::string& text) {
  const auto point = text.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(text.size() - point - 1);
}

/// A value next to a published figure, with no fewer decimals than the figure has.
std::string text_beside(const PublishedFigure& figure, double value) {
  const int decimals =
      std::max(decimals_of_text(figure.text(value)), decimals_of(figure.published));
  return fmt::format("{:.{}f}", value, decimals);
}

/// The optional columns of a table.
struct Columns {
  bool experiment = false, interval = false, formula = false;
};

Columns columns_of(const std::vector<PublishedFigure>& figures) {
  Columns columns;
  for (const PublishedFigure& one : figures) {
    columns.experiment = columns.experiment || one.experiment != figures[0].experiment;
    columns.interval = columns.interval || one.interval;
    columns.formula = columns.formula || one.formula;
  }
  return columns;
}

TableLine head_of(const Columns& columns) {
  TableLine line = {"case", "world", "figure", "published", "simulated", "measured", "deviation"};
  if (columns.experiment) line.insert(line.begin(), "experiment");
  if (columns.interval) line.emplace_back("interval");
  if (columns.formula) line.emplace_back("formula");
  line.emplace_back("this is");
  return line;
}

TableLine line_of(const PublishedFigure& one, const Columns& columns) {
  const std::string here = one.here ? text_beside(one, *one.here) : "FAILED";
  const auto deviation = one.deviation();
  TableLine line = {one.label,
                    std::to_string(one.world),
                    one.figure,
                    fmt::format("{:.{}f}", one.published, decimals_of(one.published)),
                    one.simulated ? here : "-",
                    one.simulated ? "-" : here,
                    deviation ? percent(*deviation) : "-"};
  if (columns.experiment) line.insert(line.begin(), one.experiment);
  if (columns.interval)
    line.push_back(one.interval ? fmt::format("[{}, {}]", text_beside(one, one.interval->low),
                                              text_beside(one, one.interval->high))
                                : "-");
  if (columns.formula) line.push_back(one.formula ? text_beside(one, *one.formula) : "-");
  line.push_back(
      fmt::format("{}, {}", one.fitted ? "fitted" : "predicted", name_of(agreement_of(one))));
  return line;
}

/// A list of the texts of `text_of` for the figures; equal texts stand there once, empty ones not
/// at all.
template <class Published, class TextOf>
std::string list_of(const std::vector<Published>& figures, TextOf text_of) {
  std::vector<std::string> lines;
  for (const Published& one : figures) {
    const std::string text = text_of(one);
    if (text.empty()) continue;
    std::string line = "- " + text + "\n";
    if (std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(std::move(line));
  }
  std::string out;
  for (const std::string& line : lines) out += line;
  return out;
}

std::string choices_text(const std::vector<ReproducedChoice>& choices) {
  std::vector<TableLine> lines = {{"question", "asked", "published", "here", "this is"}};
  for (const ReproducedChoice& one : choices) {
    const Agreement agreement = agreement_of(one);
    lines.push_back(
        {one.question, one.asked, one.published.empty() ? "-" : one.published,
         one.here.empty() ? "FAILED" : one.here,
         agreement == Agreement::to_the_digit ? "as published" : std::string(name_of(agreement))});
  }
  return text_table(lines) + "\n" + list_of(choices, [](const ReproducedChoice& one) {
           return one.reason.empty() ? "" : fmt::format("{}: {}", one.question, one.reason);
         });
}

/// "T2: 5 figures, 3 within 10%, 2 contradicted, 0 open.", and the same of answers.
std::string count_text(const ReproducedTable& table) {
  const auto line = [&](const std::string& what, const std::string& agreeing,
                        const Counts& counts) {
    const int failed = count(counts, Agreement::failed);
    return fmt::format("{}: {}, {}, {} contradicted, {} open{}.\n", table.name, what, agreeing,
                       count(counts, Agreement::contradicted), count(counts, Agreement::open),
                       failed > 0 ? fmt::format(", {} FAILED", failed) : "");
  };
  std::string out;
  if (!table.figures.empty() || table.choices.empty()) {
    const Counts counts = counts_of(table.figures);
    const int to_the_digit = count(counts, Agreement::to_the_digit);
    out += line(fmt::format("{} figures", table.figures.size()),
                fmt::format("{} within 10%{}", to_the_digit + count(counts, Agreement::within),
                            to_the_digit > 0
                                ? fmt::format(" ({} of them to the printed digit)", to_the_digit)
                                : ""),
                counts);
  }
  if (!table.choices.empty()) {
    const Counts counts = counts_of(table.choices);
    out += line(fmt::format("{} answers", table.choices.size()),
                fmt::format("{} as published", count(counts, Agreement::to_the_digit)), counts);
  }
  return out;
}

}  // namespace

int decimals_of(double published) {
  constexpr int most = 9;
  int decimals = 0;
  for (double scaled = published; decimals < most; scaled *= 10, ++decimals)
    if (std::abs(scaled - std::round(scaled)) <= 1e-9 * std::abs(scaled)) break;
  return decimals;
}

Agreement agreement_of(const PublishedFigure& figure) {
  const auto deviation = figure.deviation();
  if (!deviation) return Agreement::failed;
  if (std::abs(*deviation) > largest_deviation)
    return figure.contradiction.empty() ? Agreement::open : Agreement::contradicted;
  const double units = std::pow(10.0, decimals_of(figure.published));
  const double here = *figure.here * units, published = std::round(figure.published * units);
  // A value within rounding of the end of a unit belongs to both sides.
  constexpr double tiny = 1e-9;
  const bool rounded = std::abs(here - published) <= 0.5 + tiny;
  const bool cut_off = here >= published - tiny && here < published + 1;
  return rounded || cut_off ? Agreement::to_the_digit : Agreement::within;
}

Agreement agreement_of(const ReproducedChoice& choice) {
  if (choice.here.empty()) return Agreement::failed;
  if (choice.agrees) return Agreement::to_the_digit;
  return choice.contradiction.empty() ? Agreement::open : Agreement::contradicted;
}

std::string reproduced_text(const ReproducedTable& table) {
  std::string out = fmt::format("## {}: {}\n\n", table.name, table.title);
  if (!table.source.empty()) out += fmt::format("Source: {}\n\n", table.source);
  out += table.assumes + "\n\n";
  if (!table.figures.empty()) {
    const Columns columns = columns_of(table.figures);
    std::vector<TableLine> lines = {head_of(columns)};
    for (const PublishedFigure& one : table.figures) lines.push_back(line_of(one, columns));
    out += text_table(lines) + "\n";
    if (columns.formula)
      out +=
          "formula: what the ZeRO paper's formula gives for parameters, or for all model states; a "
          "peak has activations, gathered units and buckets besides.\n\n";
  }
  if (!table.choices.empty()) out += choices_text(table.choices) + "\n";
  if (const std::string text = deviations_text(table.figures); !text.empty()) out += text + "\n";
  const std::string contradictions = list_of(table.figures,
                                             [](const PublishedFigure& one) {
                                               return agreement_of(one) == Agreement::contradicted
                                                          ? one.label + ": " + one.contradiction
                                                          : "";
                                             }) +
                                     list_of(table.choices, [](const ReproducedChoice& one) {
                                       return agreement_of(one) == Agreement::contradicted
                                                  ? one.question + ": " + one.contradiction
                                                  : "";
                                     });
  if (!contradictions.empty()) out += "Contradicted:\n\n" + contradictions + "\n";
  std::string failures = list_of(table.figures, [](const PublishedFigure& one) {
    return one.error.empty() ? ""
                             : fmt::format("{} at world {}: {}", one.label, one.world, one.error);
  });
  for (const std::string& failure : table.failures) failures += "- " + failure + "\n";
  if (!failures.empty()) out += "FAILED:\n\n" + failures + "\n";
  std::vector<AssumedOf> assumed;
  for (const PublishedFigure& one : table.figures) assumed.push_back(one.assumed);
  for (const ReproducedChoice& one : table.choices) assumed.push_back(one.assumed);
  if (const std::string text = assumed_text(assumed); !text.empty()) out += text + "\n";
  return out + count_text(table);
}

std::string reproduced_summary(const std::vector<ReproducedTable>& tables) {
  std::vector<TableLine> lines = {{"table", "figures", "to the printed digit", "else within 10%",
                                   "contradicted", "open", "failed", "what it is about"}};
  std::vector<PublishedFigure> all;
  for (const ReproducedTable& table : tables) {
    all.insert(all.end(), table.figures.begin(), table.figures.end());
    TableLine& line = lines.emplace_back();
    line = {table.name, std::to_string(table.figures.size() + table.choices.size())};
    const Counts figures = counts_of(table.figures), choices = counts_of(table.choices);
    for (std::size_t i = 0; i < figures.size(); ++i)
      line.push_back(std::to_string(figures[i] + choices[i]));
    line.push_back(table.title);
  }
  return "## All tables\n\n" + text_table(lines) + "\n" + columns_text(all) +
         "to the printed digit: equal if it is rounded, or cut off, where the published figure is; "
         "or the same word.\n";
}

nlohmann::ordered_json reproduced_json(const std::vector<ReproducedTable>& tables) {
  nlohmann::ordered_json out = {{"tables", nlohmann::ordered_json::array()},
                                {"figures", nlohmann::ordered_json::array()},
                                {"choices", nlohmann::ordered_json::array()}};
  for (const ReproducedTable& table : tables) {
    out["tables"].push_back({{"name", table.name},
                             {"title", table.title},
                             {"source", table.source},
                             {"assumes", table.assumes},
                             {"failures", table.failures}});
    for (const PublishedFigure& figure : table.figures) {
      nlohmann::ordered_json one = {{"table", table.name}, {"experiment", figure.experiment}};
      one.update(to_json(figure));
      one["verdict"] = name_of(agreement_of(figure));
      out["figures"].push_back(std::move(one));
    }
    for (const ReproducedChoice& choice : table.choices)
      out["choices"].push_back({{"table", table.name},
                                {"question", choice.question},
                                {"asked", choice.asked},
                                {"published", choice.published},
                                {"here", choice.here},
                                {"reason", choice.reason},
                                {"contradiction", choice.contradiction},
                                {"verdict", name_of(agreement_of(choice))}});
  }
  return out;
}

}  // namespace ringside::runner
