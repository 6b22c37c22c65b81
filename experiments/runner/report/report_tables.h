// The lines of a summary's tables. A table without lines is left out.
#pragma once

#include <string>
#include <vector>

#include "experiments/runner/report/report.h"
#include "experiments/runner/report/text_table.h"

namespace ringside::runner {

/// One line for each case.
std::vector<TableLine> figures_table(const std::vector<CaseSummary>& cases);
/// The held-out losses; none if no case was evaluated.
std::vector<TableLine> evaluation_table(const std::vector<CaseSummary>& cases);
/// The figures that schemes report; none if no scheme reports any.
std::vector<TableLine> scheme_figures_table(const std::vector<CaseSummary>& cases);
/// The staleness of gradients; none if no case has gradients that may be stale.
std::vector<TableLine> staleness_table(const std::vector<CaseSummary>& cases);
/// The cost of each case to reach the target of the comparison; none if it has no target.
std::vector<TableLine> time_to_loss_table(const std::vector<CaseSummary>& cases);
/// One line for each role of each case; none if no case has finished.
std::vector<TableLine> memory_table(const std::vector<CaseSummary>& cases);
/// One line for each rank that CaseSummary::memory keeps.
std::vector<TableLine> ranks_table(const std::vector<CaseSummary>& cases);
/// One line for each case with a pipeline, and one for each of its stages; none without any.
std::vector<TableLine> pipelines_table(const std::vector<CaseSummary>& cases);
std::vector<TableLine> stages_table(const std::vector<CaseSummary>& cases);
/// The hidden communication, and the share of their devices' peak that cases used.
std::vector<TableLine> utilization_table(const std::vector<CaseSummary>& cases);

/// Megabytes of a peak, or "-" if it is not known: ranks of another program do not report their
/// memory by kind.
std::string peak_cell(std::int64_t bytes);

/// "64.2 (-3.0%)": the predicted value, and how far it is from the measured one.
std::string prediction_cell(double value, double scale, double error);

// ---- optional columns of the tables

/// Whether the model FLOPs utilization of any case is known.
bool with_utilization(const std::vector<CaseSummary>& cases);
bool with_predictions(const std::vector<CaseSummary>& cases);
/// Whether the errors of a cluster give an interval of a simulated step.
bool with_intervals(const std::vector<CaseSummary>& cases);
bool with_all_cores(const std::vector<CaseSummary>& cases);
/// Whether workers of any case have different stages of the model.
bool with_meshes(const std::vector<CaseSummary>& cases);
/// Whether a scheme with an algorithm of its own encodes what it sends.
bool with_encoding(const std::vector<CaseSummary>& cases);
/// Whether the table of memory has the columns for the memory of a device: the bytes that its
/// allocator took from the driver, and those that others took.
bool with_device_memory(const std::vector<CaseSummary>& cases);
/// Whether the table of memory has lines for state that ranks hold in the memory of their hosts.
bool with_host_memory(const std::vector<CaseSummary>& cases);
/// The title of the column with the cores or GPUs at work: "cores", "GPUs", or empty if no case has
/// such a figure.
std::string cores_column(const std::vector<CaseSummary>& cases);

}  // namespace ringside::runner
