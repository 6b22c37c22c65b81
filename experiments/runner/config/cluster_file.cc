#include "experiments/runner/config/cluster_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/device/cost.h"
#include "core/models/presets.h"
#include "core/sim/cluster_check.h"
#include "experiments/runner/config/cluster_tables.h"

namespace ringside::runner {
namespace {

using Places = std::map<std::string, std::string>;

std::vector<std::string> class_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < op_classes; ++i) names.emplace_back(name_of(static_cast<OpClass>(i)));
  return names;
}

/// Puts a value of the file into a field. An efficiency is a list of points, or one share that
/// holds for operations of any length.
void put(const TomlValue& from, const std::string& key, const FieldValue& out) {
  auto* const* points = std::get_if<std::vector<std::pair<double, double>>*>(&out);
  if (!points) return from.data.put(out, from.place, key);
  double share = 0;
  if (from.data.put(&share))
    **points = {{1, share}};
  else if (!from.data.put(out) || (*points)->empty())
    from.data.refuse(
        fmt::format("a share or a list of [{}, share]", key == "by_mb"      ? "MB"
                                                        : key == "by_queue" ? "kB"
                                                                            : "microseconds"),
        from.place, key);
}

/// Reads the values of one table into a struct that find_problem() calls `field`, and remembers the
/// place of each value. At the end, close() refuses keys that were never read.
class Reader {
 public:
  Reader(ClusterTable table, std::string field, Places& places)
      : table_(std::move(table)), field_(std::move(field)), places_(places) {
    if (!field_.empty()) places_[field_] = table_.place;
    for (const auto& [path, place] : table_.assumed)
      if (!table_.values.contains(path))
        throw Error("{}: assumed: {} has no key '{}'", place, table_.title(), fmt::join(path, "."));
  }

  const ClusterTable& table() const { return table_; }

  /// Reads the value at `path` into `out`; false if the table has no such value. `as` names the
  /// field that the value belongs to; if `as` is empty, the field is named by `path`.
  bool get(const TomlPath& path, const FieldValue& out, const TomlPath& as = {}) {
    know(path[0]);
    const auto it = table_.values.find(path);
    if (it == table_.values.end()) return false;
    const std::string key = fmt::format("{}", fmt::join(path, "."));
    put(it->second, key, out);
    const std::string field = as.empty() ? key : fmt::format("{}", fmt::join(as, "."));
    places_[field_.empty() ? field : field_ + "." + field] = it->second.place;
    used_.insert(path);
    return true;
  }

  /// Adds a key that did_you_mean() may suggest.
  void know(const std::string& key) { known_.push_back(key); }

  void need(const std::string& key, const FieldValue& out) {
    if (!get({key}, out)) lack(key);
  }

  /// Reads the single values among `fields`; the others are tables of their own. Throws Error, with
  /// `hint` at its end, if the table lacks a field that is not among `optional`.
  void read(const Fields& fields, const std::set<std::string_view>& optional = {},
            const std::string& hint = "") {
    for (const Field& field : fields) {
      const std::string key(field.name);
      if (is_single(field.value) && !get({key}, field.value) && !optional.contains(field.name))
        lack(key, hint);
    }
  }

  /// Throws Error that says which key the table lacks; `hint` stands at its end.
  [[noreturn]] void lack(const std::string& key, const std::string& hint = "") const {
    throw Error("{}: {} lacks {}{}", table_.place, table_.title(), key, hint);
  }

  void close() const {
    for (const auto& [path, value] : table_.values)
      if (!used_.count(path))
        throw Error("{}: unknown key '{}' in {}{}", value.place, fmt::join(path, "."),
                    table_.title(), did_you_mean(path[0], known_));
  }

 private:
  ClusterTable table_;
  std::string field_;
  Places& places_;
  std::vector<std::string> known_;
  std::set<TomlPath> used_;
};

/// Builds the description of a cluster from the tables of its file.
class Builder {
 public:
  explicit Builder(const std::filesystem::path& file) : tables_(file), file_(file) {}

  sim::ClusterSpec run() {
    check_all();
    places_.clear();
    assumed_.clear();
    sim::ClusterSpec cluster;
    cluster.name = file_.stem().string();
    Reader reader = the("cluster", "");
    places_[""] = reader.table().place;
    for (const Field& field : fields_of(cluster))
      if (is_single(field.value)) reader.get({std::string(field.name)}, field.value);
    cluster.device = device(reader, "device", "device");
    cluster.host = device(reader, "host", "host");
    reader.need("topology", &cluster.topology);
    cluster.pcie = link(reader, "pcie", true);
    cluster.peer = link(reader, "peer", cluster.topology != sim::Topology::pcie);
    cluster.nic = link(reader, "nic", cluster.machines > 1);
    reader.close();
    assume("cluster", reader.table());
    read_others(cluster);
    read_slow(cluster);
    read_speeds(cluster);
    read_timed(cluster);

    Reader collective = the("collective", "collective");
    collective.read(fields_of(cluster.collective), {"tuning", "sum", "copy", "network_us_per_mb",
                                                    "copy_out_gbs", "device_share", "error"});
    if (cluster.collective.kind == sim::CollectiveKind::shm) {
      collective.need("sum", &cluster.collective.sum.points);
      collective.need("copy", &cluster.collective.copy.points);
    }
    collective.close();
    assume("collective", collective.table());

    Reader message = the("message", "message");
    message.read(fields_of(cluster.message),
                 {"network_us", "network_us_per_mb", "loopback_us", "loopback_us_per_mb"});
    message.close();
    assume("message", message.table());
    read_optional("storage", fields_of(cluster.storage), {"shared_gbs"});
    read_optional("failures", fields_of(cluster.failures),
                  {"device_mtbf_h", "machine_mtbf_h", "restart_s"});
    cluster.assumed = assumed_;

    if (const auto problem = find_problem(cluster))
      throw Error("{}: {} {}", place_of(problem->field), problem->field, problem->reason);
    return cluster;
  }

 private:
  /// Reads all devices and links, so that mistakes in parts that the cluster does not use are found
  /// too.
  void check_all() {
    for (const std::string& name : tables_.names("device")) device(name, "", "");
    for (const std::string& name : tables_.names("link")) link(name, "", "");
  }

  /// Remembers which figures of a part are assumed.
  void assume(const std::string& part, std::vector<std::string> keys) {
    const auto same = [&](const sim::Assumed& one) { return one.part == part; };
    if (!keys.empty() && std::none_of(assumed_.begin(), assumed_.end(), same))
      assumed_.push_back({part, std::move(keys)});
  }
  void assume(const std::string& part, const ClusterTable& table) {
    std::vector<std::string> keys;
    for (const auto& [path, place] : table.assumed)
      keys.push_back(fmt::format("{}", fmt::join(path, ".")));
    assume(part, std::move(keys));
  }

  Reader the(const std::string& name, const std::string& field) {
    const ClusterTable* table = tables_.find(name);
    if (!table) throw Error("{}: the table [{}] is missing", file_.string(), name);
    return Reader(*table, field, places_);
  }

  /// Reads a table that a file need not have.
  void read_optional(const std::string& name, const Fields& fields,
                     const std::set<std::string_view>& optional) {
    if (!tables_.find(name)) return;
    Reader reader = the(name, name);
    reader.read(fields, optional);
    reader.close();
    assume(name, reader.table());
  }

  void read_others(sim::ClusterSpec& cluster) {
    for (const ClusterTable& table : tables_.list("others")) {
      const std::string field = fmt::format("others.{}", cluster.others.size());
      sim::OtherMachines& other = cluster.others.emplace_back();
      Reader reader(table, field, places_);
      reader.read(fields_of(other), {"count"});
      other.device = device(reader, "device", field + ".device");
      reader.close();
    }
  }

  void read_slow(sim::ClusterSpec& cluster) {
    for (const ClusterTable& table : tables_.list("slow")) {
      const std::string field = fmt::format("slow.{}", cluster.slow.size());
      Reader reader(table, field, places_);
      reader.read(fields_of(cluster.slow.emplace_back()), {"device"});
      reader.close();
    }
  }

  void read_speeds(sim::ClusterSpec& cluster) {
    for (const ClusterTable& table : tables_.list("speeds")) {
      const std::string field = fmt::format("speeds.{}", cluster.speeds.size());
      Reader reader(table, field, places_);
      sim::ModelSpeed& speed = cluster.speeds.emplace_back();
      reader.read(fields_of(speed), {"error"});
      reader.close();
      try {
        find_preset(speed.model);
      } catch (const Error& error) {
        throw Error("{}: model: {}", places_.at(field + ".model"), error.what());
      }
    }
  }

  void read_timed(sim::ClusterSpec& cluster) {
    const std::vector<std::string> classes = class_names();
    for (const ClusterTable& table : tables_.list("timed")) {
      const std::string field = fmt::format("timed.{}", cluster.timed.size());
      Reader reader(table, field, places_);
      sim::TimedOperation& timed = cluster.timed.emplace_back();
      reader.read(fields_of(timed));
      reader.close();
      if (std::find(classes.begin(), classes.end(), timed.kind) == classes.end())
        throw Error("{}: unknown class of operations '{}'{}", places_.at(field + ".kind"),
                    timed.kind, did_you_mean(timed.kind, classes));
    }
  }

  /// Reads the device that `key` of a table names; find_problem() calls it `field`.
  sim::DeviceSpec device(Reader& table, const std::string& key, const std::string& field) {
    std::string name;
    table.need(key, &name);
    return device(name, field, places_.at(field));
  }

  sim::DeviceSpec device(const std::string& name, const std::string& field,
                         const std::string& place) {
    Reader reader(tables_.resolve("device", name, place), field, places_);
    std::string like;
    reader.get({"like"}, &like);
    sim::DeviceSpec out;
    out.name = name;
    Fields fields = fields_of(out);
    std::erase_if(fields, [](const Field& field) { return field.name == "name"; });
    reader.read(fields, {"kind", "cores", "busy_share"}, other_than("device", name));
    reader.know("tflops");
    for (const auto& [path, value] : reader.table().values)
      if (path.size() == 2 && path[0] == "tflops") reader.get(path, &out.tflops[path[1]]);
    if (out.tflops.empty()) reader.lack("tflops.fp32", other_than("device", name));
    reader.know("error");
    for (const auto& [path, value] : reader.table().values)
      if (path.size() == 2 && path[0] == "error") reader.get(path, &out.error[path[1]]);
    read_efficiency(reader, out);
    reader.close();
    assume("device " + name, assumed_of(reader.table(), out));
    return out;
  }

  /// Reads efficiency.DTYPE.CLASS, and efficiency.CLASS for every dtype without a value of its own.
  /// A class of operations that has a stand-in may be left out.
  static void read_efficiency(Reader& reader, sim::DeviceSpec& out) {
    const std::vector<std::string> classes = class_names();
    const auto refuse = [&](const TomlValue& value, std::string_view what, const std::string& name,
                            const std::vector<std::string>& known) {
      throw Error("{}: unknown {} '{}' in efficiency of {}{}", value.place, what, name,
                  reader.table().title(), did_you_mean(name, known));
    };
    std::vector<std::string> dtypes;
    for (const auto& [dtype, tflops] : out.tflops) dtypes.push_back(dtype);
    for (const auto& [path, value] : reader.table().values) {
      if (path[0] != "efficiency" || path.size() < 2) continue;
      if (path.size() > 2 && !out.tflops.count(path[1])) refuse(value, "dtype", path[1], dtypes);
      if (std::find(classes.begin(), classes.end(), path.back()) == classes.end())
        refuse(value, "class of operations", path.back(), classes);
    }
    for (const std::string& dtype : dtypes)
      for (std::size_t i = 0; i < op_classes; ++i) {
        const std::string& name = classes[i];
        const TomlPath path = {"efficiency", dtype, name};
        sim::Efficiency curve;
        const bool everywhere = reader.get({"efficiency", name}, &curve.points, path);
        if (reader.get(path, &curve.points) || everywhere)
          out.efficiency[dtype][name] = curve;
        else if (!stand_in(static_cast<OpClass>(i)))
          reader.lack(fmt::format("efficiency.{} (or efficiency.{}.{})", name, dtype, name));
      }
  }

  /// An efficiency that is assumed for every dtype of the device is named once for all of them.
  static std::vector<std::string> assumed_of(const ClusterTable& table,
                                             const sim::DeviceSpec& device) {
    std::vector<std::string> keys;
    for (const auto& [path, place] : table.assumed)
      if (path[0] != "efficiency") keys.push_back(fmt::format("{}", fmt::join(path, ".")));
    for (const std::string& name : class_names()) {
      std::vector<std::string> dtypes;
      std::size_t all = 0;
      for (const auto& [dtype, classes] : device.efficiency) {
        all += classes.contains(name) ? 1 : 0;
        const TomlPath own = {"efficiency", dtype, name};
        if (table.assumed.contains(own) ||
            (table.assumed.contains({"efficiency", name}) && !table.values.contains(own)))
          dtypes.push_back(dtype);
      }
      if (!dtypes.empty() && dtypes.size() == all) keys.push_back("efficiency." + name);
      if (dtypes.size() == all) continue;
      for (const std::string& dtype : dtypes)
        keys.push_back(fmt::format("efficiency.{}.{}", dtype, name));
    }
    return keys;
  }

  sim::LinkSpec link(Reader& cluster, const std::string& field, bool needed) {
    std::string name;
    if (!cluster.get({field}, &name)) {
      if (needed) cluster.lack(field);
      return {};
    }
    return link(name, field, places_.at(field));
  }

  sim::LinkSpec link(const std::string& name, const std::string& field, const std::string& place) {
    Reader reader(tables_.resolve("link", name, place), field, places_);
    std::string like;
    reader.get({"like"}, &like);
    sim::LinkSpec out;
    reader.read(fields_of(out), {"by_mb", "queue_kb", "by_queue"}, other_than("link", name));
    reader.close();
    assume(field, reader.table());
    return out;
  }

  /// A hint for a table `name` that lacks keys. The name may be a misspelling of the name of
  /// another table, which the hint then suggests.
  std::string other_than(const std::string& kind, const std::string& name) const {
    std::vector<std::string> others = tables_.names(kind);
    std::erase(others, name);
    return did_you_mean(name, others);
  }

  /// The place of the field in the file; if the field was not read, the place of the nearest
  /// enclosing table.
  std::string place_of(std::string field) const {
    for (;;) {
      const auto it = places_.find(field);
      if (it != places_.end()) return it->second;
      const auto dot = field.rfind('.');
      field = dot == std::string::npos ? "" : field.substr(0, dot);
    }
  }

  ClusterTables tables_;
  std::filesystem::path file_;
  Places places_;
  std::vector<sim::Assumed> assumed_;
};

}  // namespace

sim::ClusterSpec read_cluster(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file))
    throw Error("{}: no such file; name a cluster file such as experiments/clusters/dgx-a100.toml",
                file.string());
  return Builder(file).run();
}

std::vector<std::filesystem::path> cluster_files(const std::filesystem::path& file) {
  const ClusterTables tables(file);
  return {tables.files().begin(), tables.files().end()};
}

}  // namespace ringside::runner
