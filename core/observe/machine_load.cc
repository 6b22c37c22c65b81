#include "core/observe/machine_load.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "core/base/control_group.h"
#include "core/base/error.h"
#include "core/base/seconds_now.h"

namespace ringside {
namespace {

/// The largest shares that a run may lose to other processes, to the hypervisor and to quotas
/// without counting as disturbed. The first two are shares of the processor time that the run could
/// have used; the third is a share of the run's duration. On a quiet machine daemons take about 1%.
/// If other processes take a tenth, a measured speed-up changes by as much as schemes differ. The
/// hypervisor and quotas take nothing on a quiet machine, so even a small share is a disturbance.
constexpr double most_of_others = 0.1, most_stolen = 0.02, most_throttled = 0.02;
/// The largest share of the run's duration in which its processes may stand still, as they do after
/// Ctrl-Z, in a paused container, and under a batch system that suspends jobs. After a machine's
/// sleep caches are cold and clocks are new, however short the sleep was.
constexpr double most_still = 0.02;
/// The system counts processor time in ticks of 10 ms, so a few ticks mean nothing.
constexpr double least_seconds = 0.05;

/// The numbers after the first word.
std::vector<double> numbers(std::istringstream& words) {
  std::vector<double> out;
  for (double number; words >> number;) out.push_back(number);
  return out;
}

std::int64_t heat_events(const LoadSource& source) {
  std::int64_t events = 0;
  for (const int core : source.cores) {
    std::istringstream text(source.read(
        fmt::format("/sys/devices/system/cpu/cpu{}/thermal_throttle/core_throttle_count", core)));
    if (std::int64_t count = 0; text >> count) events += count;
  }
  return events;
}

LoadSource::OwnUse own_use() {
  LoadSource::OwnUse use;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      use.processor_s +=
          static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    use.interruptions += usage.ru_nivcsw;
  }
  return use;
}

double usable_seconds(const MachineLoad& load, int usable) {
  return load.seconds * std::max(1, std::min(usable, load.cores));
}

/// Processor seconds of other processes that may have slowed the run. Cores that the run leaves
/// idle can do that work, but no scheduler places all of it there, and caches are shared. So only
/// half of the idle cores' time is subtracted.
double felt_seconds(const MachineLoad& load, int usable) {
  const double idle = load.seconds * load.cores - usable_seconds(load, usable);
  return std::max(0.0, load.others_s - idle / 2);
}

}  // namespace

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

LoadSource this_machine() {
  LoadSource source;
  source.read = read_system_file;
  source.own = own_use;
  source.now_s = seconds_now;
  source.suspended_s = [] {
    const auto seconds = [](clockid_t clock) {
      timespec time{};
      clock_gettime(clock, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    return seconds(CLOCK_BOOTTIME) - seconds(CLOCK_MONOTONIC);
  };
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) source.cores.push_back(core);
  return source;
}

LoadMeter::LoadMeter(LoadSource source) : source_(std::move(source)), begin_(counters()) {}

LoadMeter::Counters LoadMeter::counters() const {
  Counters out;
  out.now_s = source_.now_s();
  out.suspended_s = source_.suspended_s();
  out.own = source_.own();
  out.throttled_s = ControlGroup(source_.read).throttled_s();
  out.heat_events = heat_events(source_);
  const auto tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::istringstream lines(source_.read("/proc/stat"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const bool ours = std::any_of(source_.cores.begin(), source_.cores.end(),
                                  [&](int core) { return name == fmt::format("cpu{}", core); });
    if (!ours) continue;
    // The numbers are user nice system idle iowait irq softirq steal: proc(5).
    const std::vector<double> ticks = numbers(words);
    if (ticks.size() < 8) continue;
    out.busy_s += tick_s * (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]);
    out.stolen_s += tick_s * ticks[7];
  }
  return out;
}

MachineLoad LoadMeter::read() const {
  const Counters now = counters();
  const double own_s = now.own.processor_s - begin_.own.processor_s;
  return {.seconds = now.now_s - begin_.now_s,
          .cores = static_cast<int>(source_.cores.size()),
          .others_s = std::max(0.0, now.busy_s - begin_.busy_s - own_s),
          .stolen_s = now.stolen_s - begin_.stolen_s,
          .throttled_s = now.throttled_s - begin_.throttled_s,
          .heat_events = now.heat_events - begin_.heat_events,
          .interruptions = now.own.interruptions - begin_.own.interruptions,
          .suspended_s = std::max(0.0, now.suspended_s - begin_.suspended_s)};
}

std::string disturbance(const MachineLoad& load, int usable) {
  std::string out;
  const auto add = [&](const std::string& cause) { out += (out.empty() ? "" : "; ") + cause; };
  const double all = usable_seconds(load, usable);
  const auto too_much = [&](double seconds, double of, double most) {
    return seconds > least_seconds && seconds > most * of;
  };
  const auto cores = [&](double seconds) {
    return fmt::format("{:.1f} of {} cores", seconds / load.seconds, load.cores);
  };
  if (too_much(felt_seconds(load, usable), all, most_of_others))
    add("others used " + cores(load.others_s));
  if (too_much(load.stolen_s, all, most_stolen)) add("the hypervisor took " + cores(load.stolen_s));
  if (too_much(load.throttled_s, load.seconds, most_throttled))
    add(fmt::format("a quota stopped the run for {:.1f} of {:.1f} s", load.throttled_s,
                    load.seconds));
  if (too_much(load.stood_still_s, load.seconds, most_still))
    add(fmt::format("the run stood still for {:.1f} of {:.1f} s", load.stood_still_s,
                    load.seconds));
  if (load.suspended_s > least_seconds)
    add(fmt::format("the machine was suspended for {:.1f} s", load.suspended_s));
  if (load.heat_events > 0) add("heat lowered the clock");
  // If there are more ranks than cores, ranks are interrupted on a quiet machine too.
  if (!out.empty() && load.interruptions > 0)
    add(fmt::format("ranks lost their core {} times", load.interruptions));
  return out;
}

double lost_share(const MachineLoad& load, int usable) {
  if (load.seconds <= 0) return 0;
  return (felt_seconds(load, usable) + load.stolen_s) / usable_seconds(load, usable) +
         (load.throttled_s + load.stood_still_s) / load.seconds +
         (load.heat_events > 0 ? most_of_others : 0) +
         (load.suspended_s > least_seconds ? most_of_others : 0);
}

Fields fields_of(MachineLoad& load) {
  return {{"seconds", &load.seconds},
          {"cores", &load.cores},
          {"others_s", &load.others_s},
          {"stolen_s", &load.stolen_s},
          {"throttled_s", &load.throttled_s},
          {"heat_events", &load.heat_events},
          {"interruptions", &load.interruptions},
          {"stood_still_s", &load.stood_still_s},
          {"suspended_s", &load.suspended_s}};
}

}  // namespace ringside
