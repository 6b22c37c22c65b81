// Parts of a case's summary: each has its figures, their names in summary.json and the function
// that makes it of the case's runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/observe/run_record.h"
#include "experiments/runner/report/curves.h"

namespace ringside::runner {

/// Records of one case, the one with the smallest seed first.
using CaseRecords = std::vector<const RunRecord*>;

/// The repeats of a case, and the attempts at them.
struct CaseRuns {
  int repeats = 0, failed = 0;
  std::string error;  // cause of the first repeat that failed
  /// The number of repeats without an undisturbed attempt, the disturbance of the worst of them,
  /// and the number of attempts that do not count.
  int disturbed = 0;
  std::string disturbance;
  int superseded = 0;

  int finished() const { return repeats - failed; }
};

Fields fields_of(CaseRuns& runs);
/// `repeats` has, for each repeat, the one record that counts; `attempts` has all records.
CaseRuns runs_of(const CaseRecords& repeats, const CaseRecords& attempts);

/// The parts of a step's time, in milliseconds: each the median over the repeats.
struct CaseTimes {
  double compute = 0;
  double exposed = 0;
  /// The part of a worker's communication for which the worker does not wait: communication minus
  /// exposed, and 0 where a worker waits longer than it communicates.
  double hidden = 0;
  double optimizer = 0, data = 0, idle = 0, encoding = 0;
  double other = 0;  // data, idle and encoding
  double communication = 0;
};

Fields fields_of(CaseTimes& times);
/// The median of a figure over the records; 0 for none.
double median_of(const CaseRecords& rows, double (*figure)(const RunRecord& row));

/// Here and below, `finished` are the repeats that finished, at least one.
CaseTimes times_of(const CaseRecords& finished);
/// hidden / communication; nothing where none is communicated.
std::optional<double> overlap_of(const CaseRecords& finished);

/// Bytes in a step.
struct CaseBytes {
  double sent = 0;        // by the busiest rank
  bool computed = false;  // not counted (Traffic::computed)
  bool known = true;      // otherwise `sent` is 0
  double minimum = 0;     // the fewest that the scheme has to send
};

Fields fields_of(CaseBytes& bytes);
CaseBytes bytes_of(const CaseRecords& finished);

/// Reports of the scheme.
struct CaseReports {
  std::vector<RunFigure> figures;  // `max` is the largest one of all repeats
  /// Of the repeat with the stalest gradient: the staleness of its gradients, and the steps of its
  /// workers if these differ.
  std::optional<RunStaleness> staleness{};
  std::vector<std::int64_t> worker_steps{};
  std::vector<std::string> lost_workers{};  // of all repeats
  std::vector<std::string> worlds{};  // of each repeat whose world changed: "3 for 12 steps, ..."
};

Fields fields_of(CaseReports& reports);
CaseReports reports_of(const CaseRecords& finished);

/// Losses of the repeat with the smallest seed that finished.
struct CaseLosses {
  double final_loss = 0;
  std::optional<LossCurve> curve{}, held_out_curve{};
  std::optional<Evaluation> held_out{};  // the last one
  std::optional<double> perplexity{};    // of `held_out`; nothing for images
};

/// Without `held_out` and `perplexity`.
Fields fields_of(CaseLosses& losses);
CaseLosses losses_of(const CaseRecords& finished);

}  // namespace ringside::runner
