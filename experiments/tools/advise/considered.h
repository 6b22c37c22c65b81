// The candidates that `advise` has considered, the outcome of each, and the choice of the best.
#pragma once

#include <string>
#include <vector>

#include "experiments/tools/advise/candidate.h"

namespace ringside::tools::advise {

/// The outcome of a candidate.
enum class Outcome : std::uint8_t {
  simulated,
  no_memory,   // of a device or a host
  cannot_win,  // its bound is longer than the step of another candidate
  needless,    // the same with less recomputation or offload fits
  failed,      // the candidate cannot be planned, or its simulation failed
  not_tried    // there was no time for it
};

struct Considered {
  Candidate candidate;
  Outcome outcome = Outcome::not_tried;
  std::string why{};  // of any outcome but `simulated`: a clause, "its model states take 128 GB"
  /// The least time of its step: of compute, or of the servers' traffic between machines.
  double bound_ms = 0;
  double needs_gb = 0;  // of a device's memory: by estimate where it was not simulated
  /// Of those that were simulated; times are those of RunRecord.
  double samples_per_s = 0, step_ms = 0, compute_ms = 0, exposed_ms = 0, optimizer_ms = 0;
  double host_gb = 0;      // of the host's memory, by the rank that offloads most
  double efficiency = -1;  // compute without recomputation, divided by the step; -1: not known
};

/// Candidates whose speeds differ by a smaller share than this count as equally fast, and the
/// simpler one is advised. On CPUs it is the largest error of predictions
/// (tests/long/predictions_test.cc): simulations do not model the way in which the system's
/// scheduler shares cores among the threads of workers, communicators and servers.
double as_fast(const Question& question);

/// Those that were simulated, the fastest first; with a deadline those that meet it, by the hours
/// of devices that they take, and then the others. But the simplest of those that are as good as
/// the first one comes before it.
std::vector<Considered> ranked(const Question& question, const std::vector<Considered>& all);

/// Hours of all devices together that a million samples take.
double device_hours_per_million(const Considered& one);
/// Hours that the question's samples take.
double hours(const Question& question, const Considered& one);

}  // namespace ringside::tools::advise
