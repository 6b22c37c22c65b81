#include "experiments/runner/report/report_page.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/pipeline/picture.h"
#include "experiments/runner/report/common_plan.h"
#include "experiments/runner/report/environment_history.h"
#include "experiments/runner/report/summary_tables.h"

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;

/// The cell without the marks that make it bold in Markdown; nothing if it has none.
std::optional<std::string> without_bold(const std::string& cell) {
  constexpr std::string_view mark = "**";
  const std::size_t marks = 2 * mark.size();
  if (cell.size() < marks || !cell.starts_with(mark) || !cell.ends_with(mark)) return {};
  return cell.substr(mark.size(), cell.size() - marks);
}

ordered_json table_json(const SummaryTable& table) {
  ordered_json rows = ordered_json::array(), best = ordered_json::array();
  for (std::size_t l = 1; l < table.lines.size(); ++l) {
    TableLine line = table.lines[l];
    for (std::size_t c = 0; c < line.size(); ++c)
      if (const auto plain = without_bold(line[c])) {
        line[c] = *plain;
        best.push_back({l - 1, c});
      }
    rows.push_back(line);
  }
  return {{"id", table.id}, {"title", table.title}, {"columns", table.lines[0]},
          {"rows", rows},   {"best", best},         {"note", table.note}};
}

/// A picture of more actions is wider than anyone scrolls.
constexpr std::size_t most_drawn = 1 << 13;

std::size_t actions_of(const pipeline::Schedule& schedule) {
  std::size_t sum = 0;
  for (const auto& actions : schedule.actions) sum += actions.size();
  return sum;
}

/// The lines of a text.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (std::size_t begin = 0;;) {
    const std::size_t at = text.find(what, begin);
    out += text.substr(begin, at - begin);
    if (at == std::string_view::npos) return out;
    out += by;
    begin = at + what.size();
  }
}

/// JSON that may stand in an element <script>: nothing in it ends the element.
std::string json_in_script(std::string_view json) { return replaced(json, "<", "\\u003c"); }

/// A lane for each rank of the first case's pipeline, and so on, with the measured times.
ordered_json pictures_of(const std::vector<CaseSummary>& cases) {
  ordered_json out = ordered_json::array();
  for (const CaseSummary& one : cases) {
    if (!one.pipeline) continue;
    const auto measured = measured_schedule(one.plan, *one.pipeline);
    if (!measured || actions_of(measured->schedule) > most_drawn) continue;
    out.push_back({{"id", fmt::format("schedule-{}", out.size() + 1)},
                   {"title", fmt::format("{}, world {}: {}", one.label(), one.plan.world,
                                         measured->schedule.name)},
                   {"svg", picture_svg(measured->schedule, measured->times)}});
  }
  return out;
}

/// Puts each text in the place of the line "@NAME@".
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& texts) {
  std::string out;
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < page.size();) {
    const std::size_t end = std::min(page.find('\n', begin), page.size());
    const std::string_view line = page.substr(begin, end - begin);
    begin = end + 1;
    const auto text = texts.find(line);
    found += text != texts.end() ? 1 : 0;
    out += text != texts.end() ? text->second : line;
    out += '\n';
  }
  if (found != texts.size())
    throw Error(
        "the page of report.html has {} of {} places for its parts; mend "
        "experiments/runner/report/page/report.html",
        found, texts.size());
  return out;
}

}  // namespace

ordered_json report_of(const PageSource& source) {
  const std::vector<CaseSummary>& cases = source.cases;
  const std::string name = source.rows.empty() ? source.folder : source.rows[0].plan.experiment;
  ordered_json tables = ordered_json::array();
  for (const SummaryTable& table : summary_tables(cases)) tables.push_back(table_json(table));
  std::vector<std::string> remarks = lines_of(simulated_text(cases));
  for (std::string& line : lines_of(remarks_text(cases))) remarks.push_back(std::move(line));
  for (std::string& line : texts_of_earlier(source.environment)) remarks.push_back(std::move(line));
  nlohmann::json environment = source.environment;
  if (environment.is_object()) environment.erase("earlier");  // the remarks say what differs
  const auto made = source.environment.is_object() && source.environment.contains("time")
                        ? ordered_json(source.environment["time"])
                        : ordered_json();
  return {{"name", name},
          {"folder", source.folder},
          {"made", made},
          {"summary", summary_json(name, cases)},
          {"tables", tables},
          {"pictures", pictures_of(cases)},
          {"remarks", remarks},
          {"environment", environment},
          {"configuration", common_plan(source.rows)},
          {"complaints", source.complaints}};
}

bool can_draw(const PageParts& parts) { return !parts.vega.empty(); }

std::string how_to_get_reports() {
  return "this program was built without the library that draws report.html; run scripts/setup, "
         "which fetches it with Python's pip, or scripts/vl-convert build/vl-convert, and build "
         "again";
}

std::string report_page(const PageParts& parts, const std::vector<ordered_json>& reports,
                        const std::string& commit, const std::vector<std::string>& not_read) {
  const ordered_json data = {{"format", 1},
                             {"program", {{"name", "ringside"}, {"commit", commit}}},
                             {"reports", reports},
                             {"not_read", not_read}};
  const std::string text = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  // "<\/" is "</" to JavaScript, within a string.
  return filled(parts.page, {{"@STYLE@", std::string(parts.style)},
                             {"@THEME@", json_in_script(parts.theme)},
                             {"@FIGURES@", json_in_script(parts.figures)},
                             {"@DATA@", json_in_script(text)},
                             {"@VEGA@", replaced(parts.vega, "</script", "<\\/script")},
                             {"@SCRIPT@", replaced(parts.script, "</script", "<\\/script")}});
}

}  // namespace ringside::runner
