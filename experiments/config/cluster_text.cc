// Writes the text that experiments/config/cluster_file.cc reads.
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.h"
#include "core/sim/cluster_fields.h"
#include "experiments/config/cluster_file.h"
#include "experiments/config/toml.h"

namespace ringside {
namespace {

/// One share that holds for operations of any length is written as a plain number.
nlohmann::json json_of(const sim::Efficiency& curve) {
  if (curve.points.size() == 1 && curve.points[0].first == 1) return curve.points[0].second;
  return curve.points;
}

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
  void value(std::string_view key, const nlohmann::json& value) {
    out_ += fmt::format("{} = {}\n", toml_key(std::string(key)), toml_text(value));
  }
  template <class Struct>
  void fields(const Struct& s) {
    visit_fields(s,
                 [&](std::string_view key, const auto& field, sim::Range) { value(key, field); });
  }

  void device(const sim::DeviceSpec& device) {
    table({"device", device.name});
    fields(device);
    value("tflops", device.tflops);
    for (const auto& [dtype, classes] : device.efficiency) {
      table({"device", device.name, "efficiency", dtype});
      for (const auto& [name, curve] : classes) value(name, json_of(curve));
    }
  }
  void link(const std::string& name, const sim::LinkSpec& link) {
    if (link.gbs == 0) return;
    table({"link", name});
    fields(link);
  }

  std::string text() && { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace

std::string cluster_text(const sim::ClusterSpec& cluster, const std::string& comment) {
  const nlohmann::json json = to_json(cluster);
  if (cluster.device.name == cluster.host.name && json.at("device") != json.at("host"))
    throw Error("cluster {}: device and host are both called '{}', but differ; rename one",
                cluster.name, cluster.host.name);
  Writer out;
  out.comment(comment);
  out.table({"cluster"});
  out.fields(cluster);
  out.value("device", cluster.device.name);
  out.value("host", cluster.host.name);
  out.value("topology", name_of(cluster.topology));
  if (!cluster.mesh.empty()) out.value("mesh", cluster.mesh);
  if (!cluster.ring.empty()) out.value("ring", cluster.ring);
  for (const auto& [name, link] :
       {std::pair("peer", &cluster.peer), {"pcie", &cluster.pcie}, {"nic", &cluster.nic}})
    if (link->gbs != 0) out.value(name, name);
  out.device(cluster.device);
  if (cluster.host.name != cluster.device.name) out.device(cluster.host);
  out.link("peer", cluster.peer);
  out.link("pcie", cluster.pcie);
  out.link("nic", cluster.nic);
  out.table({"collective"});
  out.fields(cluster.collective);
  if (!cluster.collective.sum.points.empty()) out.value("sum", json_of(cluster.collective.sum));
  if (!cluster.collective.copy.points.empty()) out.value("copy", json_of(cluster.collective.copy));
  out.table({"message"});
  out.fields(cluster.message);
  return std::move(out).text();
}

}  // namespace ringside
