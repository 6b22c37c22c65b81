// What somebody published, beside what came out here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/report/assumed.h"
#include "experiments/report/report.h"

namespace ringside {

/// One published figure.
struct PublishedFigure {
  std::string experiment;
  std::string label;  // of the case
  int world = 1;
  std::string figure{};  // what it says, with its unit: "step ms"
  double published = 0;
  std::optional<double> here{};  // what came out; nothing if the run failed
  /// Where it lies as far as the errors that the cluster states allow; nothing if they are not
  /// known, and for ratios.
  std::optional<Interval> interval{};
  bool fitted = false;  // something was chosen so that this figure comes out
  AssumedOf assumed{};

  /// here / published - 1
  std::optional<double> deviation() const;
  /// Whether the published figure lies in the interval; nothing without one.
  std::optional<bool> holds() const;
};

/// The step, the samples/s or the ratio of the case, whichever was published; nothing for a case of
/// which nothing was published. `cases` has the case that a ratio compares with.
std::optional<PublishedFigure> published_figure(const CaseSummary& one,
                                                const std::vector<CaseSummary>& cases);
/// Those of all cases of which something was published.
std::vector<PublishedFigure> published_figures(const std::vector<CaseSummary>& cases);

/// One line for each figure, and below them, for each experiment, the median and the largest
/// deviation of its predictions and of its fitted figures. The figures may be of several
/// experiments. Empty if there are none.
std::string published_text(const std::vector<PublishedFigure>& figures);

}  // namespace ringside
