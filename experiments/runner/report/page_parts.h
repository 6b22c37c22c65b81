// The parts of report.html, which are built into the program (cmake/report.cmake).
#pragma once

#include <string_view>

namespace ringside::runner {

struct PageParts {
  std::string_view page;             // with a line @NAME@ where each of the others goes
  std::string_view style, theme;     // CSS, and the theme of figures as JSON
  std::string_view script;           // of the page
  std::string_view figures;          // a JSON object: the Vega-Lite specification of each figure
  std::string_view vega;             // the drawing library; empty if the build did not have it
  std::string_view figures_program;  // scripts/report-figures
};

/// The parts that are built into the program.
PageParts built_in_page();

}  // namespace ringside::runner
