#include <fmt/ranges.h>

#include <cmath>

#include "core/base/error.h"
#include "experiments/runner/config/toml.h"
#include "experiments/runner/report/text_table.h"
#include "experiments/tools/calibrate/cluster_fit.h"

namespace ringside::tools::calibrate {
namespace {

template <class Value>
std::string line(std::string_view key, Value value) {
  return fmt::format("{} = {}\n", key, runner::toml_text(&value));
}

template <class Struct>
std::string lines_of(const Struct& values) {
  std::string out;
  for (const Field& field : fields_to_read(values))
    if (is_single(field.value))
      if (const std::string text = runner::toml_text(field.value); text != "[]")
        out += fmt::format("{} = {}\n", field.name, text);
  return out;
}

}  // namespace

std::string fitted_text(const std::filesystem::path& at, const std::filesystem::path& base,
                        const sim::ClusterSpec& before, const sim::ClusterSpec& fitted,
                        const std::string& comment) {
  const auto include = std::filesystem::weakly_canonical(base).lexically_relative(
      std::filesystem::weakly_canonical(at).parent_path());
  std::string cluster = "[cluster]\n" + line("source", fitted.source), tables;
  const auto add_link = [&](const std::string& key, const sim::LinkSpec& was,
                            const sim::LinkSpec& now) {
    if (was == now) return;
    cluster += line(key, "fitted-" + key);
    tables += fmt::format("\n[link.fitted-{}]\n{}", key, lines_of(now));
  };
  add_link("peer", before.peer, fitted.peer);
  add_link("pcie", before.pcie, fitted.pcie);
  add_link("nic", before.nic, fitted.nic);
  if (before.collective != fitted.collective)
    tables += "\n[collective]\n" + line("tuning", std::string(name_of(fitted.collective.tuning))) +
              line("base_us", fitted.collective.base_us) + line("error", fitted.collective.error);
  if (before.device.error != fitted.device.error) {
    tables += fmt::format("\n[device.{}.error]\n", runner::toml_key(fitted.device.name));
    for (const auto& [dtype, error] : fitted.device.error)
      tables += line(runner::toml_key(dtype), error);
  }
  for (const sim::ModelSpeed& speed : fitted.speeds) tables += "\n[[speeds]]\n" + lines_of(speed);
  return fmt::format("{}{}\n{}{}", comment, line("include", include.string()), cluster, tables);
}

std::string fit_text(const std::vector<FittedFigure>& figures) {
  std::vector<runner::TableLine> lines = {
      {"figure of", "world", "figure", "measured", "before", "after", "left out"}};
  const auto number = [](double value) {
    return value < 0.1 ? fmt::format("{:.2g}", value) : runner::per_second(value);
  };
  const auto percent = [&](double here, double measured) {
    const double miss = 100 * (here / measured - 1);
    return fmt::format("{} ({:+.1f}%)", number(here), std::abs(miss) < 0.05 ? 0 : miss);
  };
  for (const FittedFigure& one : figures)
    lines.push_back({one.label, std::to_string(one.world), one.figure, number(one.measured),
                     percent(one.before, one.measured), percent(one.after, one.measured),
                     one.left_out ? percent(*one.left_out, one.measured) : "-"});
  return runner::text_table(lines) +
         "\nbefore, after: simulated with the cluster as it was, and as it was fitted to all of "
         "these figures. left out: fitted to the others alone; the largest of these misses is the "
         "`error` that the file states.\n";
}

}  // namespace ringside::tools::calibrate
