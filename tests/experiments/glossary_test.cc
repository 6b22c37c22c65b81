// The glossary has an entry for every heading of the tables that the program prints.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/runner/report/diff.h"
#include "experiments/runner/report/published.h"
#include "experiments/runner/report/report.h"

namespace ringside::runner {
namespace {

/// The headings of all Markdown tables in a text: the cells of each line above a rule.
std::set<std::string> headings_of(const std::string& text) {
  std::set<std::string> out;
  std::istringstream lines(text);
  std::string line, before;
  while (std::getline(lines, line)) {
    if (line.rfind("|--", 0) == 0) {
      std::istringstream cells(before.substr(1));
      for (std::string cell; std::getline(cells, cell, '|');) {
        const auto first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
        if (first != std::string::npos) out.insert(cell.substr(first, last - first + 1));
      }
    }
    before = line;
  }
  return out;
}

/// A case that has a value for every column and a line in every table.
CaseSummary case_with_everything() {
  CaseSummary one;
  one.plan.listing.label = one.plan.listing.family = one.plan.scheme = "ps";
  one.plan.promise = Promise::own_algorithm;
  one.plan.world = 4;
  one.plan.mesh = {.data = 2, .pipeline = 2};
  one.time_ms.encoding = 1;
  one.runs.repeats = 5;
  one.plan.cluster.emplace().name = "cluster";
  one.cores = 1.5;
  one.of_all_cores = {0.9, Interval{0.8, 1}};
  one.speed_up = {1.8, Interval{1.7, 1.9}};
  one.simulated_ms = Interval{90, 110};
  one.predicted = {.step_ms = 100, .memory_peak = 100};
  one.reports.figures = {{"distance", "L2", 1, 2}};
  one.reports.staleness = RunStaleness{};
  one.losses.held_out = Evaluation{};
  one.pipeline = PipelineSummary{.stages = {StageSummary{}}, .places = {PipelinePlace{}}};
  one.time_to_loss = TimeToLoss{};
  RoleMemory role;
  role.role = "worker";
  role.ranks = 1;
  role.device = DeviceMemory{};
  role.host = HostMemory{};
  one.memory.roles = {role};
  Published published;
  published.value = 100;
  one.plan.listing.published = {published};
  return one;
}

TEST(Glossary, HasEveryHeadingOfTheTables) {
  CaseSummary on_gpus = case_with_everything();
  on_gpus.plan.ranks = {{.rank = 0, .ordinal = 0}, {.rank = 1, .ordinal = 1}};
  Diff diff;
  diff.speeds = {{}};
  diff.values = {{}};
  const std::string text = summary_text({case_with_everything()}) + summary_text({on_gpus}) +
                           diff_text(diff) +
                           published_text(published_figures({case_with_everything()}));
  const std::set<std::string> headings = headings_of(text);
  EXPECT_GT(headings.size(), 60u);
  std::ostringstream glossary;
  glossary << std::ifstream(RINGSIDE_GLOSSARY).rdbuf();
  for (const std::string& heading : headings) {
    // "change [95%]" has the confidence in it
    const std::string entry = "**" + heading.substr(0, heading.find(" [")) + "**";
    EXPECT_NE(glossary.str().find(entry), std::string::npos)
        << "docs/reference/columns.md has no entry " << entry;
  }
}

}  // namespace
}  // namespace ringside::runner
