#include "experiments/config/cluster_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/device/cost.h"
#include "core/sim/cluster_fields.h"
#include "experiments/config/cluster_tables.h"

namespace ringside {
namespace {

using Places = std::map<std::string, std::string>;

std::vector<std::string> class_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < op_classes; ++i) names.emplace_back(name_of(static_cast<OpClass>(i)));
  return names;
}

void convert(const TomlTarget& from, sim::Topology& out) {
  std::string name;
  from.to(name);
  const auto topology = sim::topology_of(name);
  if (!topology) from.refuse("pcie, switch or mesh");
  out = *topology;
}

/// Reads an efficiency: a list of points, or one share that holds for operations of any length.
void convert(const TomlTarget& from, sim::Efficiency& out) {
  static constexpr std::string_view wanted = "a share or a list of [microseconds, share]";
  out.points.clear();
  if (from.value.is_number()) {
    out.points.emplace_back(1, 0);
    return from.to(out.points[0].second);
  }
  if (!from.value.is_array() || from.value.empty()) from.refuse(wanted);
  for (const auto& point : from.value) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number())
      from.refuse(wanted);
    out.points.emplace_back(point[0].get<double>(), point[1].get<double>());
  }
}

void convert(const TomlTarget& from, std::vector<std::pair<std::int64_t, std::int64_t>>& out) {
  static constexpr std::string_view wanted = "a list of pairs of devices, as in [[0, 1], [1, 2]]";
  if (!from.value.is_array()) from.refuse(wanted);
  out.clear();
  for (const auto& pair : from.value) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() ||
        !pair[1].is_number_integer())
      from.refuse(wanted);
    out.emplace_back(pair[0].get<std::int64_t>(), pair[1].get<std::int64_t>());
  }
}

template <class T>
void convert(const TomlTarget& from, T& out) {
  from.to(out);
}

/// Reads the values of one table into a struct that find_problem() calls `field`, and remembers the
/// place of each value. At the end, close() refuses keys that were never read.
class Reader {
 public:
  Reader(ClusterTable table, std::string field, Places& places)
      : table_(std::move(table)), field_(std::move(field)), places_(places) {
    if (!field_.empty()) places_[field_] = table_.place;
  }

  const ClusterTable& table() const { return table_; }

  /// Reads the value at `path` into `out`; false if the table has no such value. `as` is the field
  /// that the value belongs to, where this is not `path`.
  template <class T>
  bool get(const TomlPath& path, T& out, const TomlPath& as = {}) {
    know(path[0]);
    const auto it = table_.values.find(path);
    if (it == table_.values.end()) return false;
    const std::string key = fmt::format("{}", fmt::join(path, "."));
    convert(TomlTarget{it->second.value, it->second.place, key}, out);
    const std::string field = as.empty() ? key : fmt::format("{}", fmt::join(as, "."));
    places_[field_.empty() ? field : field_ + "." + field] = it->second.place;
    used_.insert(path);
    return true;
  }

  /// Adds a key that did_you_mean() may suggest.
  void know(const std::string& key) { known_.push_back(key); }

  template <class T>
  void need(const std::string& key, T& out) {
    if (!get({key}, out)) lack(key);
  }

  /// Reads all fields of a struct whose fields are text or numbers; throws Error if one is missing.
  template <class Struct>
  void need_fields(Struct& out) {
    visit_fields(
        out, [&](std::string_view key, auto& value, sim::Range) { need(std::string(key), value); });
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

/// Builds a cluster from the tables of its file.
class Builder {
 public:
  explicit Builder(const std::filesystem::path& file) : tables_(file), file_(file) {}

  sim::ClusterSpec run() {
    check_all();
    places_.clear();
    sim::ClusterSpec cluster;
    cluster.name = file_.stem().string();
    Reader reader = the("cluster", "");
    places_[""] = reader.table().place;
    visit_fields(cluster, [&](std::string_view key, auto& value, sim::Range) {
      reader.get({std::string(key)}, value);
    });
    cluster.device = device(reader, "device");
    cluster.host = device(reader, "host");
    reader.need("topology", cluster.topology);
    reader.get({"mesh"}, cluster.mesh);
    reader.get({"ring"}, cluster.ring);
    cluster.pcie = link(reader, "pcie", true);
    cluster.peer = link(reader, "peer", cluster.topology != sim::Topology::pcie);
    cluster.nic = link(reader, "nic", cluster.machines > 1);
    reader.close();

    Reader collective = the("collective", "collective");
    collective.need_fields(cluster.collective);
    if (!collective.get({"sum"}, cluster.collective.sum) && cluster.collective.kind == "shm")
      collective.lack("sum");
    if (!collective.get({"copy"}, cluster.collective.copy) && cluster.collective.kind == "shm")
      collective.lack("copy");
    collective.close();

    Reader message = the("message", "message");
    message.need_fields(cluster.message);
    message.close();

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

  Reader the(const std::string& name, const std::string& field) {
    const ClusterTable* table = tables_.find(name);
    if (!table) throw Error("{}: the table [{}] is missing", file_.string(), name);
    return Reader(*table, field, places_);
  }

  /// Reads the device that key `field` of the cluster names.
  sim::DeviceSpec device(Reader& cluster, const std::string& field) {
    std::string name;
    cluster.need(field, name);
    return device(name, field, places_.at(field));
  }

  sim::DeviceSpec device(const std::string& name, const std::string& field,
                         const std::string& place) {
    Reader reader(tables_.resolve("device", name, place), field, places_);
    std::string like;
    reader.get({"like"}, like);
    sim::DeviceSpec out;
    out.name = name;
    visit_fields(out, [&](std::string_view view, auto& value, sim::Range) {
      const std::string key(view);
      const bool has_default = key == "kind" || key == "cores" || key == "busy_share";
      if (!reader.get({key}, value) && !has_default) reader.lack(key, other_than("device", name));
    });
    reader.know("tflops");
    for (const auto& [path, value] : reader.table().values)
      if (path.size() == 2 && path[0] == "tflops") reader.get(path, out.tflops[path[1]]);
    if (out.tflops.empty()) reader.lack("tflops.fp32", other_than("device", name));
    read_efficiency(reader, out);
    reader.close();
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
        const bool everywhere = reader.get({"efficiency", name}, curve, path);
        if (reader.get(path, curve) || everywhere)
          out.efficiency[dtype][name] = curve;
        else if (!stand_in(static_cast<OpClass>(i)))
          reader.lack(fmt::format("efficiency.{} (or efficiency.{}.{})", name, dtype, name));
      }
  }

  sim::LinkSpec link(Reader& cluster, const std::string& field, bool needed) {
    std::string name;
    if (!cluster.get({field}, name)) {
      if (needed) cluster.lack(field);
      return {};
    }
    return link(name, field, places_.at(field));
  }

  sim::LinkSpec link(const std::string& name, const std::string& field, const std::string& place) {
    Reader reader(tables_.resolve("link", name, place), field, places_);
    std::string like;
    reader.get({"like"}, like);
    sim::LinkSpec out;
    visit_fields(out, [&](std::string_view key, auto& value, sim::Range) {
      if (!reader.get({std::string(key)}, value))
        reader.lack(std::string(key), other_than("link", name));
    });
    reader.close();
    return out;
  }

  /// A hint for a table that lacks keys: its name may be a misspelling of another table's name,
  /// which the hint suggests.
  std::string other_than(const std::string& kind, const std::string& name) const {
    std::vector<std::string> others = tables_.names(kind);
    std::erase(others, name);
    return did_you_mean(name, others);
  }

  /// The place of the field in the file; if the field was not read, that of the nearest enclosing
  /// part.
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

}  // namespace ringside
