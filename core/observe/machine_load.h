// Other programs' load on a machine while a run was measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/fields.h"

namespace ringside {

/// The load from the moment before the first rank started to the moment after the last rank ended.
struct MachineLoad {
  double seconds = 0;      // wall time
  int cores = 0;           // number of cores that this process may use
  double others_s = 0;     // processor time, on these cores, of processes outside the run
  double stolen_s = 0;     // processor time, on these cores, that the hypervisor gave to others
  double throttled_s = 0;  // time during which a quota held up processes of our control group
  std::int64_t heat_events = 0;    // how often a core lowered its clock because of heat
  std::int64_t interruptions = 0;  // how often the system took a core from a rank that wanted it
  double stood_still_s = 0;        // in which the run's processes did not run at all
  double suspended_s = 0;          // in which the machine slept; no clock of the run counts it
};

/// The disturbances of a run that can use `usable` cores at once, in words, for instance "others
/// used 0.9 of 2 cores"; empty if nothing disturbed the run. The thresholds stand in
/// machine_load.cc.
std::string disturbance(const MachineLoad& load, int usable);

/// The share of its processor time that a run lost to disturbances. It tells which of two runs was
/// disturbed less. `usable` is as for disturbance().
double lost_share(const MachineLoad& load, int usable);

Fields fields_of(MachineLoad& load);

/// Processor seconds that all threads of this process have used so far.
double processor_seconds();

/// The functions from which a LoadMeter takes its figures.
struct LoadSource {
  struct OwnUse {
    double processor_s = 0;
    std::int64_t interruptions = 0;
  };
  std::function<std::string(const std::string& file)>
      read;                       // all text of a file; empty if unreadable
  std::function<OwnUse()> own;    // this process and its children that have ended
  std::function<double()> now_s;  // wall clock
  std::function<double()> suspended_s = [] { return 0.0; };  // since the machine's start
  std::vector<int> cores{};  // numbers of the cores that this process may run on
};
/// The source that reads /proc, /sys and getrusage() of this machine.
LoadSource this_machine();

/// A meter of the load since its construction: the difference of two readings of counters that the
/// system keeps anyway. Nothing runs in between.
class LoadMeter {
 public:
  explicit LoadMeter(LoadSource source = this_machine());
  /// Returns the load until now. All ranks must have ended and must have been waited for: otherwise
  /// their time counts as time of other processes. A figure that the system does not provide is 0;
  /// so is `stood_still_s`, which the launcher of the ranks knows.
  MachineLoad read() const;

 private:
  struct Counters {
    double now_s = 0, suspended_s = 0, busy_s = 0, stolen_s = 0, throttled_s = 0;
    std::int64_t heat_events = 0;
    LoadSource::OwnUse own;
  };
  Counters counters() const;

  LoadSource source_;
  Counters begin_;
};

}  // namespace ringside
