// Published figures next to those of this comparison.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/runner/report/assumed.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/report/text_table.h"

namespace ringside::runner {

/// The text of a figure with as many decimals as its kind usually has.
using FigureText = std::string (*)(double);

/// One published figure.
struct PublishedFigure {
  std::string experiment;
  std::string label;  // of the case
  int world = 1;
  std::string figure{};  // the name of the figure, with its unit: "step ms"
  FigureText text = per_second;
  double published = 0;
  std::optional<double> here{};  // the value of this comparison; none if the run failed
  /// The interval of the figure that follows from the cluster's stated errors; none if they are not
  /// known, and for ratios.
  std::optional<Interval> interval{};
  bool fitted = false;              // something was chosen so that this figure comes out
  bool simulated = true;            // otherwise measured on this machine
  std::string error{};              // why there is no value
  std::optional<double> formula{};  // of parameters or of model states (StateBytes)
  std::string contradiction{};      // as Published::contradiction
  AssumedOf assumed{};

  /// here / published - 1
  std::optional<double> deviation() const;
  /// Whether the published figure lies in the interval; none without an interval.
  std::optional<bool> holds() const;
};

/// The figures that were published of the case, without the speed-up of world 1 against itself.
/// `cases` has the cases that ratios compare with.
std::vector<PublishedFigure> published_figures(const CaseSummary& one,
                                               const std::vector<CaseSummary>& cases);
/// Those of all cases.
std::vector<PublishedFigure> published_figures(const std::vector<CaseSummary>& cases);

nlohmann::ordered_json to_json(const PublishedFigure& figure);

/// "+1.5%"
std::string percent(double share);
/// A line for each experiment, and for its predicted and its fitted figures: the median and the
/// largest deviation. Empty without values.
std::string deviations_text(const std::vector<PublishedFigure>& figures);
/// The assumed figures of the clusters on which the figures were simulated; empty if there are
/// none.
std::string assumptions_text(const std::vector<PublishedFigure>& figures);
/// The explanation of the columns, below a table of figures.
std::string columns_text(const std::vector<PublishedFigure>& figures);

/// One line for each figure; none if there are no figures.
std::vector<TableLine> published_table(const std::vector<PublishedFigure>& figures);
/// The text below that table.
std::string published_note(const std::vector<PublishedFigure>& figures);
/// One line for each figure, and below them, for each experiment, the median and the largest
/// deviation of its predictions and of its fitted figures. The figures may be of several
/// experiments. Empty if there are none.
std::string published_text(const std::vector<PublishedFigure>& figures);

}  // namespace ringside::runner
