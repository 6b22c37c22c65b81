// The text of a cluster file, which experiments/runner/config/cluster_file.cc reads.
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "core/base/error.h"
#include "experiments/runner/config/cluster_file.h"
#include "experiments/runner/config/toml.h"

namespace ringside::runner {
namespace {

class Writer {
 public:
  void comment(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::replace_if(
          line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
      out_ += line.empty() ? "#\n" : fmt::format("# {}\n", line);
    }
  }
  void table(const std::vector<std::string>& name) {
    std::vector<std::string> keys;
    for (const std::string& part : name) keys.push_back(toml_key(part));
    out_ += fmt::format("{}[{}]\n", out_.empty() ? "" : "\n", fmt::join(keys, "."));
  }
  /// One of several tables of that name.
  void entry(std::string_view name) { out_ += fmt::format("\n[[{}]]\n", name); }
  /// Leaves out empty lists. An efficiency that is the same for operations of any length is written
  /// as one number.
  void value(std::string_view key, const FieldValue& value) {
    std::string text = toml_text(value);
    if (text == "[]") return;
    auto* const* points = std::get_if<std::vector<std::pair<double, double>>*>(&value);
    if (points && (*points)->size() == 1 && (*points)->front().first == 1)
      text = toml_text(&(*points)->front().second);
    out_ += fmt::format("{} = {}\n", toml_key(std::string(key)), text);
  }
  /// Writes those of `fields` that are single values, not tables.
  void values(const Fields& fields) {
    for (const Field& field : fields)
      if (is_single(field.value)) value(field.name, field.value);
  }

  /// Writes the list `assumed` of a part, with a key for each dtype of an efficiency.
  void assumed(const sim::ClusterSpec& cluster, const std::string& part,
               const sim::DeviceSpec& device = {}) {
    constexpr std::string_view efficiency = "efficiency.";
    std::vector<std::string> keys;
    for (const sim::Assumed& one : cluster.assumed) {
      if (one.part != part) continue;
      for (const std::string& key : one.keys) {
        const std::string name = key.substr(std::min(efficiency.size(), key.size()));
        if (!key.starts_with(efficiency) || name.find('.') != std::string::npos)
          keys.push_back(key);
        else
          for (const auto& [dtype, classes] : device.efficiency)
            if (classes.contains(name))
              keys.push_back(fmt::format("{}{}.{}", efficiency, dtype, name));
      }
    }
    value("assumed", &keys);
  }

  void device(const sim::ClusterSpec& cluster, sim::DeviceSpec device) {
    table({"device", device.name});
    Fields fields = fields_of(device);
    std::erase_if(fields, [](const Field& field) { return field.name == "name"; });
    values(fields);
    assumed(cluster, "device " + device.name, device);
    value("tflops", Table(&device.tflops));
    if (!device.error.empty()) value("error", Table(&device.error));
    for (auto& [dtype, classes] : device.efficiency) {
      table({"device", device.name, "efficiency", dtype});
      for (auto& [name, curve] : classes) value(name, &curve.points);
    }
  }
  void link(const sim::ClusterSpec& cluster, const std::string& name, const sim::LinkSpec& link) {
    if (link.gbs == 0) return;
    table({"link", name});
    values(fields_to_read(link));
    assumed(cluster, name);
  }

  std::string text() && { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace

std::string cluster_text(const sim::ClusterSpec& cluster, const std::string& comment) {
  std::vector<const sim::DeviceSpec*> devices;  // one of each name
  const auto know = [&](const sim::DeviceSpec& device) {
    for (const sim::DeviceSpec* known : devices) {
      if (known->name != device.name) continue;
      if (*known == device) return;
      throw Error("cluster {}: two devices are called '{}', but differ; rename one", cluster.name,
                  device.name);
    }
    devices.push_back(&device);
  };
  know(cluster.device);
  know(cluster.host);
  for (const sim::OtherMachines& other : cluster.others) know(other.device);
  Writer out;
  out.comment(comment);
  out.table({"cluster"});
  out.values(fields_to_read(cluster));
  out.assumed(cluster, "cluster");
  const auto name = [&](std::string_view key, std::string of) { out.value(key, &of); };
  name("device", cluster.device.name);
  name("host", cluster.host.name);
  for (const auto& [key, link] :
       {std::pair("peer", &cluster.peer), {"pcie", &cluster.pcie}, {"nic", &cluster.nic}})
    if (link->gbs != 0) name(key, key);
  for (const sim::OtherMachines& other : cluster.others) {
    out.entry("others");
    out.values(fields_to_read(other));
    name("device", other.device.name);
  }
  for (const sim::SlowDevice& slow : cluster.slow) {
    out.entry("slow");
    out.values(fields_to_read(slow));
  }
  for (const sim::ModelSpeed& speed : cluster.speeds) {
    out.entry("speeds");
    out.values(fields_to_read(speed));
  }
  for (const sim::TimedOperation& one : cluster.timed) {
    out.entry("timed");
    out.values(fields_to_read(one));
  }
  for (const sim::DeviceSpec* device : devices) out.device(cluster, *device);
  out.link(cluster, "peer", cluster.peer);
  out.link(cluster, "pcie", cluster.pcie);
  out.link(cluster, "nic", cluster.nic);
  out.table({"collective"});
  out.values(fields_to_read(cluster.collective));
  out.assumed(cluster, "collective");
  out.table({"message"});
  out.values(fields_to_read(cluster.message));
  out.assumed(cluster, "message");
  if (cluster.storage != sim::StorageSpec()) {
    out.table({"storage"});
    out.values(fields_to_read(cluster.storage));
    out.assumed(cluster, "storage");
  }
  if (cluster.failures != sim::FailureSpec()) {
    out.table({"failures"});
    out.values(fields_to_read(cluster.failures));
    out.assumed(cluster, "failures");
  }
  return std::move(out).text();
}

}  // namespace ringside::runner
