// What else a machine did while a run was measured.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ringside {

/// From the moment before the first rank was started to the moment after the last one had ended.
struct MachineLoad {
  double seconds = 0;              // wall time
  int cores = 0;                   // that this process may run on; the next two are of these alone
  double others_s = 0;             // processor time of processes that are not of the run
  double stolen_s = 0;             // that the hypervisor gave to other virtual machines
  double throttled_s = 0;          // during which a quota held up processes of our control group
  std::int64_t heat_events = 0;    // how often a core lowered its clock because of heat
  std::int64_t interruptions = 0;  // how often the system took a core from a rank that wanted it
};

/// What disturbed a run that can use `usable` cores at once, such as "others used 0.9 of 2 cores";
/// empty for a run that nothing disturbed. The thresholds stand in machine_load.cc.
std::string disturbance(const MachineLoad& load, int usable);

/// How much of its processor time such a run has lost: tells which of two runs was disturbed less.
double lost_share(const MachineLoad& load, int usable);

nlohmann::ordered_json to_json(const std::optional<MachineLoad>& load);
std::optional<MachineLoad> machine_load_from_json(const nlohmann::json& in);

/// Processor seconds of this process so far, of all its threads.
double processor_seconds();

/// Where a LoadMeter has its figures from.
struct LoadSource {
  struct OwnUse {
    double processor_s = 0;
    std::int64_t interruptions = 0;
  };
  std::function<std::string(const std::string& file)> read;  // all its text; empty if it cannot be
  std::function<OwnUse()> own;    // of this process and those of its children that have ended
  std::function<double()> now_s;  // wall clock
  std::vector<int> cores{};       // numbers of those that this process may run on
};
/// /proc, /sys and getrusage() of this machine.
LoadSource this_machine();

/// Measures from its construction on. Two readings of the counters that the system keeps anyway:
/// nothing runs in between.
class LoadMeter {
 public:
  explicit LoadMeter(LoadSource source = this_machine());
  /// Until now. The ranks have ended and have been waited for: else their time counts as that of
  /// others. What the system does not tell is 0.
  MachineLoad read() const;

 private:
  struct Counters {
    double now_s = 0, busy_s = 0, stolen_s = 0, throttled_s = 0;
    std::int64_t heat_events = 0;
    LoadSource::OwnUse own;
  };
  Counters counters() const;

  LoadSource source_;
  Counters begin_;
};

}  // namespace ringside
