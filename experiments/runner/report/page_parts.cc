#include "experiments/runner/report/page_parts.h"

extern "C" {
extern const char ringside_page_template[], ringside_page_template_end[];
extern const char ringside_page_style[], ringside_page_style_end[];
extern const char ringside_page_theme[], ringside_page_theme_end[];
extern const char ringside_page_script[], ringside_page_script_end[];
extern const char ringside_page_figures[], ringside_page_figures_end[];
extern const char ringside_page_vega[], ringside_page_vega_end[];
extern const char ringside_page_figures_program[], ringside_page_figures_program_end[];
}

namespace ringside::runner {

PageParts built_in_page() {
  return {.page = {ringside_page_template, ringside_page_template_end},
          .style = {ringside_page_style, ringside_page_style_end},
          .theme = {ringside_page_theme, ringside_page_theme_end},
          .script = {ringside_page_script, ringside_page_script_end},
          .figures = {ringside_page_figures, ringside_page_figures_end},
          .vega = {ringside_page_vega, ringside_page_vega_end},
          .figures_program = {ringside_page_figures_program, ringside_page_figures_program_end}};
}

}  // namespace ringside::runner
