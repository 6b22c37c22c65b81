#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/pipeline/picture.h"
#include "core/pipeline/time_grid.h"

namespace ringside::pipeline {
namespace {

// Pixels.
constexpr double margin = 16, names = 60, slot = 20, lane_height = 24, box_height = 20;
constexpr double digit = 6.5;  // of a number in a box
constexpr double legend_step = 200, least_width = 4 * legend_step;

/// Colours are those of the report's figures (experiments/runner/report/page/report.css: series 2,
/// 3, 4 and 7), which stay apart for eyes that lack one kind of receptors.
constexpr std::string_view style = R"(<style>
  text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1b1f24 }
  .n { font-size: 11px; text-anchor: middle }
  .ground { fill: #ffffff }
  rect { shape-rendering: crispEdges }
  .lane { fill: #f4f5f7 }
  .F { fill: #0c6de5 } .B { fill: #aa3700 } .I { fill: #1e6c5a } .W { fill: #95834a }
  .nF, .nB, .nI { fill: #ffffff } .nW { fill: #000000 }
  .pale { fill-opacity: 0.4 }
  .npale { fill: #1b1f24 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8eaed }
    .ground { fill: #16191d }
    .lane { fill: #0f1114 }
    .F { fill: #3b70ef } .B { fill: #ca5a15 } .I { fill: #9fd3a9 } .W { fill: #f6aa21 }
    .nF, .nB, .nI, .nW { fill: #000000 }
    .npale { fill: #e8eaed }
  }
</style>
)";

/// `text` as XML takes it; other characters below a space are not in XML at all.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
    }
  return out;
}

double x_of(double slots) { return margin + names + slots * slot; }
double y_of(std::size_t rank) { return margin + static_cast<double>(rank) * lane_height; }

std::string box(const DrawnAction& one, double y) {
  const std::string_view operation = name_of(one.action.operation);
  const double x = x_of(one.begin), width = (one.end - one.begin) * slot;
  const std::string number = std::to_string(one.action.micro_batch);
  std::string out = fmt::format(
      "<rect class=\"{}{}\" x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\">"
      "<title>{}: {:.4g} s to {:.4g} s</title></rect>\n",
      operation, one.is_pale ? " pale" : "", x, y, std::max(width - 1, 0.5), box_height,
      text_of(one.action), one.times.begin, one.times.end);
  if (digit * static_cast<double>(number.size()) < width)
    out += fmt::format("<text class=\"n n{}\" x=\"{:.2f}\" y=\"{:.0f}\">{}</text>\n",
                       one.is_pale ? "pale" : operation, x + (width - 1) / 2,
                       y + box_height / 2 + 4, number);
  return out;
}

std::string legend(const TimeGrid& grid, double y) {
  double x = margin;
  std::string out;
  const auto entry = [&](std::string_view kind, std::string_view meaning) {
    out += fmt::format(
        "<rect class=\"{}\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
        kind, x, y, x + 18, y + 10, meaning);
    x += legend_step;
  };
  for (const auto& [operation, meaning] : drawn_operations)
    if (grid.has(operation)) entry(name_of(operation), meaning);
  if (grid.has_pale()) entry("F pale", pale_meaning);
  return out;
}

}  // namespace

std::string picture_svg(const Schedule& schedule, const SimulatedSchedule& times) {
  const TimeGrid grid(schedule, times);
  const std::size_t ranks = grid.lanes().size();
  const double width = std::max(least_width, std::ceil(x_of(grid.slots()))) + margin;
  const double below = y_of(ranks) + 8, height = below + 12 + margin;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\" aria-label=\"Schedule {2}: {3} ranks, {4} "
      "micro-batches\">\n{5}<rect class=\"ground\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n",
      width, height, escaped(schedule.name), ranks, schedule.micro_batches, style);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    out += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.0f}\">rank {}</text><rect class=\"lane\" x=\"{:.0f}\" "
        "y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\"/>\n",
        margin, y_of(rank) + 14, rank, x_of(0), y_of(rank), grid.slots() * slot, box_height);
    for (const DrawnAction& one : grid.lanes()[rank]) out += box(one, y_of(rank));
  }
  return out + legend(grid, below) + "</svg>\n";
}

}  // namespace ringside::pipeline
