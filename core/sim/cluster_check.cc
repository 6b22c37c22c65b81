#include "core/sim/cluster_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/sim/uneven.h"

namespace ringside::sim {
namespace {

constexpr std::array<std::string_view, 4> dtypes = {"fp32", "tf32", "fp16", "bf16"};
/// Bounds of all other numbers (GB, GB/s, TFLOP/s and microseconds): in bytes, operations or
/// picoseconds, larger values could overflow.
constexpr double largest = 1e9, smallest = 1e-9;
/// The largest relative error that a cluster may state.
constexpr double largest_error = 10;

/// Throws ClusterProblem; find_problem() catches it.
class Checker {
 public:
  explicit Checker(const ClusterSpec& cluster) : c_(cluster) {}

  void run() const {
    check_ranges(c_, "");
    if (c_.machines * c_.devices > most_devices)
      refuse("machines", "are too many: {} machines of {} devices have more than {} devices",
             c_.machines, c_.devices, most_devices);
    check_device(c_.device, "device");
    check_device(c_.host, "host");
    if (c_.host.kind != DeviceKind::cpu)
      refuse("host.kind", "must be cpu, but is {}", name_of(c_.host.kind));
    check_others();
    check_slow();
    check_speeds();
    check_timed();
    check_error("error", c_.error);
    if (c_.jitter > most_jitter)
      refuse("jitter", "must be at most {}, but is {}", most_jitter, c_.jitter);
    if (c_.spread > most_jitter)
      refuse("spread", "must be at most {}, but is {}", most_jitter, c_.spread);
    check_machine();
    check_network();
    check_collective();
    check_ranges(c_.message, "message.");
    check_ranges(c_.storage, "storage.");
    if (c_.storage.shared_gbs > 0 && c_.storage.gbs == 0)
      refuse("storage.gbs", "is missing: shared_gbs alone does not say what one machine writes");
    check_ranges(c_.failures, "failures.");
  }

 private:
  template <class... Args>
  [[noreturn]] static void refuse(const std::string& field, fmt::format_string<Args...> reason,
                                  Args&&... args) {
    throw ClusterProblem{field, fmt::format(reason, std::forward<Args>(args)...)};
  }

  /// Checks every number of a struct, whose fields are called prefix + name in messages.
  template <class Struct>
  static void check_ranges(const Struct& s, const std::string& prefix) {
    for (const auto& [name, value, description, range] : fields_to_read(s)) {
      const std::string field = prefix + std::string(name);
      if (const auto* number = std::get_if<double*>(&value)) check_range(field, **number, range);
      if (const auto* count = std::get_if<std::int64_t*>(&value)) {
        if (**count > most_devices)  // the upper bound of all whole numbers
          refuse(field, "must be at most {}, but is {}", most_devices, **count);
        check_range(field, static_cast<double>(**count), range);
      }
    }
  }

  static void check_range(const std::string& field, double value, Range range) {
    if (const auto rule = broken_rule(range, value); !rule.empty())
      refuse(field, "{}, but is {}", rule, value);
    if (value > largest) refuse(field, "must be at most {}, but is {}", largest, value);
    if ((range == Range::positive || range == Range::share) && value < smallest)
      refuse(field, "must be at least {}, but is {}", smallest, value);
  }

  static void check_curve(const Efficiency& curve, const std::string& field) {
    if (curve.points.empty()) refuse(field, "has no points");
    double before = 0;
    for (const auto& [time, share] : curve.points) {
      if (!std::isfinite(time) || time <= before)
        refuse(field, "must have ascending times above 0, but {} comes after {}", time, before);
      if (!(share > 0 && share <= largest_efficiency))
        refuse(field, "must have shares above 0 and at most {}, but one is {}", largest_efficiency,
               share);
      if (time > largest) refuse(field, "must have times up to {}, but one is {}", largest, time);
      if (share < smallest)
        refuse(field, "must have shares of at least {}, but one is {}", smallest, share);
      before = time;
    }
  }

  static void check_error(const std::string& field, double error) {
    if (!(error >= 0 && error <= largest_error))
      refuse(field, "must lie between 0 and {}, but is {}", largest_error, error);
  }

  static void check_device(const DeviceSpec& device, const std::string& field) {
    check_ranges(device, field + ".");
    if (device.kind == DeviceKind::gpu && device.cores != 1)
      refuse(field + ".cores", "must be 1 for a gpu, because one rank uses a whole gpu, but is {}",
             device.cores);
    if (device.tflops.empty()) refuse(field + ".tflops", "is missing");
    for (const auto& [dtype, value] : device.tflops) {
      if (std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end())
        refuse(field + ".tflops." + dtype, "has an unknown dtype; the known dtypes are {}",
               fmt::join(dtypes, ", "));
      check_range(field + ".tflops." + dtype, value, Range::positive);
      if (!device.efficiency.count(dtype)) refuse(field + ".efficiency." + dtype, "is missing");
    }
    for (const auto& [dtype, classes] : device.efficiency) {
      if (!device.tflops.count(dtype))
        refuse(field + ".efficiency." + dtype, "is for a dtype that is missing in tflops");
      for (const auto& [name, curve] : classes)
        check_curve(curve, field + ".efficiency." + dtype + "." + name);
    }
    for (const auto& [dtype, value] : device.error) {
      if (!device.tflops.count(dtype))
        refuse(field + ".error." + dtype, "is for a dtype that is missing in tflops");
      check_error(field + ".error." + dtype, value);
    }
  }

  void check_others() const {
    std::set<std::int64_t> known;
    for (std::size_t i = 0; i < c_.others.size(); ++i) {
      const OtherMachines& other = c_.others[i];
      const std::string field = fmt::format("others.{}", i);
      check_ranges(other, field + ".");
      if (other.first + other.count > c_.machines)
        refuse(field, "names machines {} to {}, but machines are 0 to {}", other.first,
               other.first + other.count - 1, c_.machines - 1);
      for (std::int64_t machine = other.first; machine < other.first + other.count; ++machine)
        if (!known.insert(machine).second)
          refuse(field, "names machine {}, which another entry names already", machine);
      check_device(other.device, field + ".device");
      if (other.device.kind != c_.device.kind)
        refuse(field + ".device", "must be a {} as the other devices are, but is a {}",
               name_of(c_.device.kind), name_of(other.device.kind));
    }
  }

  void check_slow() const {
    for (std::size_t i = 0; i < c_.slow.size(); ++i) {
      const SlowDevice& slow = c_.slow[i];
      const std::string field = fmt::format("slow.{}", i);
      check_ranges(slow, field + ".");
      if (slow.machine >= c_.machines)
        refuse(field + ".machine", "is {}, but machines are 0 to {}", slow.machine,
               c_.machines - 1);
      if (slow.device < -1 || slow.device >= c_.devices)
        refuse(field + ".device", "is {}, but devices are 0 to {}; -1: all of the machine",
               slow.device, c_.devices - 1);
      if (slow.factor < 1) refuse(field + ".factor", "must be at least 1, but is {}", slow.factor);
    }
  }

  void check_speeds() const {
    for (std::size_t i = 0; i < c_.speeds.size(); ++i) {
      const ModelSpeed& speed = c_.speeds[i];
      const std::string field = fmt::format("speeds.{}", i);
      check_ranges(speed, field + ".");
      check_error(field + ".error", speed.error);
      if (!c_.device.tflops.contains(speed.precision))
        refuse(field + ".precision", "is '{}', of which device {} has no tflops", speed.precision,
               c_.device.name);
      for (std::size_t k = 0; k < i; ++k)
        if (c_.speeds[k].model == speed.model && c_.speeds[k].precision == speed.precision)
          refuse(field, "is for model {} in {}, as is an entry before it", speed.model,
                 speed.precision);
    }
  }

  void check_timed() const {
    for (std::size_t i = 0; i < c_.timed.size(); ++i) {
      const TimedOperation& one = c_.timed[i];
      const std::string field = fmt::format("timed.{}", i);
      check_range(field + ".us", one.us, Range::positive);
      if (!(one.memory_us >= 0 && one.memory_us <= one.us))
        refuse(field + ".memory_us", "must lie between 0 and us = {}, but is {}", one.us,
               one.memory_us);
      for (const auto& [name, value] :
           {std::pair("operations", one.operations), {"bytes", one.bytes}})
        if (!(value >= 0 && std::isfinite(value)))
          refuse(fmt::format("{}.{}", field, name), "must be finite and not negative, but is {}",
                 value);
      if (!c_.device.tflops.contains(one.dtype))
        refuse(field + ".dtype", "is '{}', of which device {} has no tflops", one.dtype,
               c_.device.name);
    }
  }

  static void check_link(const LinkSpec& link, const std::string& field) {
    check_ranges(link, field + ".");
    if (!link.by_mb.points.empty()) check_curve(link.by_mb, field + ".by_mb");
    if (!link.by_queue.points.empty()) check_curve(link.by_queue, field + ".by_queue");
  }

  void check_machine() const {
    if (c_.topology != Topology::pcie) check_link(c_.peer, "peer");
    check_link(c_.pcie, "pcie");
    if (c_.topology != Topology::mesh && !c_.mesh.empty())
      refuse("mesh", "is only allowed with topology mesh, but the topology is {}",
             name_of(c_.topology));
    if (c_.topology == Topology::mesh && c_.mesh.empty()) refuse("mesh", "is missing");
    for (const auto& [a, b] : c_.mesh) {
      for (const std::int64_t device : {a, b})
        if (device < 0 || device >= c_.devices)
          refuse("mesh", "names device {}, but devices are 0 to {}", device, c_.devices - 1);
      if (a == b) refuse("mesh", "connects device {} with itself", a);
    }
    if (c_.ring.empty()) return;
    std::vector<std::int64_t> sorted = c_.ring;
    std::sort(sorted.begin(), sorted.end());
    bool each_once = static_cast<std::int64_t>(sorted.size()) == c_.devices;
    for (std::size_t i = 0; each_once && i < sorted.size(); ++i)
      each_once = sorted[i] == static_cast<std::int64_t>(i);
    if (!each_once) refuse("ring", "must name each of the devices 0 to {} once", c_.devices - 1);
  }

  void check_network() const {
    if (c_.machines == 1) return;
    check_link(c_.nic, "nic");
    if (c_.devices % c_.nics != 0)
      refuse("nics", "must divide the {} devices of a machine, but is {}", c_.devices, c_.nics);
  }

  void check_collective() const {
    const CollectiveSpec& collective = c_.collective;
    check_ranges(collective, "collective.");
    check_error("collective.error", collective.error);
    if (collective.device_share >= 1)
      refuse("collective.device_share", "must be less than 1, but is {}", collective.device_share);
    if (collective.kind == CollectiveKind::nccl) {
      if (collective.network_us_per_mb > 0)
        refuse("collective.network_us_per_mb", "is for kind shm");
      const MessageSpec& message = c_.message;
      for (const auto& [key, value] : {std::pair("network_us", message.network_us),
                                       {"network_us_per_mb", message.network_us_per_mb},
                                       {"loopback_us", message.loopback_us},
                                       {"loopback_us_per_mb", message.loopback_us_per_mb}})
        if (value > 0)
          refuse(fmt::format("message.{}", key),
                 "is for collective.kind shm: others have one kind of messages");
      return;
    }
    if (collective.device_share > 0)
      refuse("collective.device_share", "is for kind nccl: with shm a rank's core does both");
    if (collective.copy_out_gbs > 0) refuse("collective.copy_out_gbs", "is for kind nccl");
    if (collective.tuning != CollectiveTuning::rings)
      refuse("collective.tuning", "is for kind nccl");
    check_curve(collective.sum, "collective.sum");
    check_curve(collective.copy, "collective.copy");
  }

  const ClusterSpec& c_;
};

}  // namespace

std::optional<ClusterProblem> find_problem(const ClusterSpec& cluster) {
  try {
    Checker(cluster).run();
  } catch (const ClusterProblem& problem) {
    return problem;
  }
  return std::nullopt;
}

void check(const ClusterSpec& cluster) {
  if (const auto problem = find_problem(cluster))
    throw Error("cluster {}: {} {}", cluster.name, problem->field, problem->reason);
}

}  // namespace ringside::sim
