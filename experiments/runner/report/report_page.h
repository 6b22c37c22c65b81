// report.html: the summaries of comparisons as one page that opens offline.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/runner/report/page_parts.h"
#include "experiments/runner/report/report.h"

namespace ringside::runner {

/// The content of a results folder for the page.
struct PageSource {
  std::string folder;                        // as it was named
  const std::vector<RunRecord>& rows;        // all that could be read
  const std::vector<CaseSummary>& cases;     // summarise(rows)
  const nlohmann::json& environment;         // content of environment.json; null if it is not known
  std::vector<std::string> complaints = {};  // parts that could not be read, with the cause
};

/// The data of one comparison: its summary, the tables of summary.md, the part of the plan that its
/// runs share, and its environment. It has everything that the page shows.
nlohmann::ordered_json report_of(const PageSource& source);

/// Whether the program was built with the library that draws the page.
bool can_draw(const PageParts& parts);
/// The remedy if it was not; one line.
std::string how_to_get_reports();

/// The whole page, which loads no other file, of several reports of report_of(). `commit` is that
/// of the program that makes the page; `not_read` has a line for each folder that could not be read
/// at all. Throws Error if the page was built without a place for one of its parts.
std::string report_page(const PageParts& parts, const std::vector<nlohmann::ordered_json>& reports,
                        const std::string& commit, const std::vector<std::string>& not_read = {});

}  // namespace ringside::runner
