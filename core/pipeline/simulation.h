// Simulation of a schedule: when each action of a step begins and ends.
#pragma once

#include <cstddef>
#include <vector>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

/// Seconds that one stage computes for one micro-batch. B takes as long as I and W together.
struct StageTimes {
  double f = 1, b = 1, w = 1;  // F, I, W
};

struct ScheduleTimes {
  std::vector<StageTimes> stages{};
  /// Seconds that a value occupies the way from one rank to another, and seconds more until it is
  /// there. Both directions between two ranks have ways of their own.
  double send_s = 0, latency_s = 0;
};
/// The same times for each stage of the schedule.
ScheduleTimes equal_times(const Schedule& schedule, const StageTimes& times, double send_s = 0,
                          double latency_s = 0);

/// Seconds since the first rank began. A send or receive begins when the rank comes to it, and ends
/// when the value has left or has come.
struct ActionTimes {
  double begin = 0, end = 0;
};

/// An action of a schedule: its rank, and its index there.
struct ActionPlace {
  int rank = -1;
  std::size_t index = 0;
  bool operator==(const ActionPlace&) const = default;
};

struct RankTimes {
  double begin = 0, end = 0;  // of its first and its last action
  double busy = 0;            // seconds of compute
  double idle() const { return end - begin - busy; }
};

struct SimulatedSchedule {
  std::vector<std::vector<ActionTimes>> actions{};  // of each rank, in the order of the schedule
  std::vector<RankTimes> ranks{};
  double whole_s = 0;  // from the begin of the first rank to the end of the last one
  /// The actions that compute, each of which waits for the one before, and whose delay would delay
  /// the end. What they do not take of `whole_s` is spent on the ways of values between them.
  std::vector<ActionPlace> critical_path{};
  double critical_compute_s = 0;
  double critical_transfer_s() const {
    const double out = whole_s - critical_compute_s;  // less than its rounding: nothing
    return out > 1e-12 * whole_s ? out : 0;
  }

  /// As MakerInfo::bubble and MakerInfo::idle count.
  double bubble() const;
  double idle() const;
};

/// Lets all ranks do their actions in order, each as soon as it can. A transfer begins when both
/// ends have come to it and the transfer before on its way has left, and goes on beside compute. In
/// a schedule without sends it begins when the value is made. The schedule passes check(), and
/// `times` has all its stages; times are not negative, and some rank computes.
SimulatedSchedule simulate(const Schedule& schedule, const ScheduleTimes& times);

}  // namespace ringside::pipeline
