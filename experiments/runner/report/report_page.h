// report.html: the summaries of comparisons as one page that opens offline.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/runner/report/page_parts.h"
#include "experiments/runner/report/report.h"

namespace ringside::runner {

/// What a results folder gives the page.
struct PageSource {
  std::string folder;                        // as it was named
  const std::vector<RunRecord>& rows;        // all that could be read
  const std::vector<CaseSummary>& cases;     // summarise(rows)
  const nlohmann::json& environment;         // content of environment.json; null if it is not known
  std::vector<std::string> complaints = {};  // what could not be read, and why, a line each
};

/// The data of one comparison: its summary, the tables of summary.md, what
/// its runs have in common, and its environment. Everything that the page shows stands in there.
nlohmann::ordered_json report_of(const PageSource& source);

/// Whether the program was built with the library that draws the page.
bool can_draw(const PageParts& parts);
/// What to do where it was not; one line.
std::string how_to_get_reports();

/// The whole page, with nothing outside of it, of several reports of report_of(). `commit`: of the
/// program that makes the page. `not_read`: a line for each folder that could not be read at all.
/// Throws Error if the page was built without a place for one of its parts.
std::string report_page(const PageParts& parts, const std::vector<nlohmann::ordered_json>& reports,
                        const std::string& commit, const std::vector<std::string>& not_read = {});

}  // namespace ringside::runner
