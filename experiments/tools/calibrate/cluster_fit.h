// The fit of a cluster to figures that were measured on it: `ringside calibrate --from`.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"
#include "experiments/tools/bench/published_collectives.h"

namespace ringside::tools::calibrate {

/// A measured figure and its simulated values.
struct FittedFigure {
  std::string label;
  int world = 1;
  std::string figure{};  // with its unit: "samples/s", "GB/s, 16 MiB"
  double measured = 0;
  double before = 0, after = 0;  // with the cluster as it was, and as it is now
  /// With a cluster that was fitted to the other figures alone; none if these do not determine this
  /// one.
  std::optional<double> left_out{};
};

/// The largest of left_out / measured and its inverse, minus 1; nothing if no figure was left out.
std::optional<double> largest_miss(const std::vector<FittedFigure>& figures);

/// Rounds to five digits, more than the accuracy of a fit and short enough for a file.
double rounded(double value);

/// Simulates a plan, and returns its samples a second.
using SimulatedStep = std::function<double(const RunPlan&)>;

/// The published samples a second of a run, or those that follow from a published step; none if
/// neither was published.
std::optional<double> published_per_s(const RunPlan& plan);

/// Finds the factor on the speed of all operations with which the step of each of `plans` takes the
/// time in RunPlan::published (cluster.speeds; for several steps of one model in one precision the
/// geometric mean, whose error is the largest deviation of these). Sets the errors of the device to
/// the deviations of each from the other models' factors. The plans are of one device of `cluster`,
/// of models that are presets, and of each published_per_s() is known. A step takes a + b / factor
/// seconds, so two simulations of each give a and b. Throws Error that names the case if its model
/// is not a preset, if a plan has a factor of its own (device.efficiency), and if the step would
/// have to be shorter than the part that does not depend on the device's speed.
std::vector<FittedFigure> fit_speeds(sim::ClusterSpec& cluster, const std::vector<RunPlan>& plans,
                                     const SimulatedStep& simulate);

/// Finds for the link between devices, and for that between machines, the latency with which the
/// smallest arrays take their measured time (CollectiveSpec::base_us, and step_us of the NIC), and
/// the curve by size for the others (LinkSpec::by_mb; where several tables have a size, the
/// geometric mean of their shares). Rings are fitted (CollectiveTuning::rings). Sets the
/// collectives' error to the deviation of each table from a fit to the other tables of the link; if
/// there is only one table, its sizes are left out one at a time instead, except the smallest and
/// the largest. Blocks, and throws Error as run_comm_bench() does.
std::vector<FittedFigure> fit_links(sim::ClusterSpec& cluster,
                                    const std::vector<bench::PublishedCollective>& tables);

/// The text of a cluster file `at` that includes `base`, the file from which `before` was read, and
/// has the figures of `fitted` that differ. `comment` stands at its head.
std::string fitted_text(const std::filesystem::path& at, const std::filesystem::path& base,
                        const sim::ClusterSpec& before, const sim::ClusterSpec& fitted,
                        const std::string& comment);

/// A table of the figures, with those of fits that left them out.
std::string fit_text(const std::vector<FittedFigure>& figures);

}  // namespace ringside::tools::calibrate
