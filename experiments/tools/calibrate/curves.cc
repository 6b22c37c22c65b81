#include "experiments/tools/calibrate/curves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/device/cost.h"
#include "core/device/sim/sim_device.h"
#include "core/sim/cluster_check.h"

namespace ringside::tools::calibrate {
namespace {

/// Microseconds of an operation on the roofline, and as it was measured.
struct Times {
  double ideal = 0, taken = 0;
};
/// By octave of the ideal time, or by part of one.
using Octaves = std::map<int, std::vector<Times>>;

constexpr double least_share = 1e-4;

double sum(const std::vector<Times>& of, double Times::*member) {
  double out = 0;
  for (const Times& one : of) out += one.*member;
  return out;
}

/// The share of one point is first that of its octave as a whole. Between points the curve differs
/// from that, so every point is corrected, several times, by the factor by which its octave is too
/// slow or too fast.
sim::Efficiency curve_of(const Octaves& octaves) {
  constexpr int corrections = 50;
  sim::Efficiency curve;
  for (const auto& [number, times] : octaves) {
    double logarithms = 0;
    for (const Times& one : times) logarithms += std::log(one.ideal);
    curve.points.emplace_back(std::exp(logarithms / static_cast<double>(times.size())),
                              sum(times, &Times::ideal) / sum(times, &Times::taken));
  }
  for (int i = 0; i < corrections; ++i) {
    auto corrected = curve.points;
    auto point = corrected.begin();
    for (const auto& [number, times] : octaves) {
      double on_curve = 0;
      for (const Times& one : times) on_curve += one.ideal / curve.at(one.ideal);
      double& share = (point++)->second;
      share = std::clamp(share * on_curve / sum(times, &Times::taken), least_share,
                         sim::largest_efficiency);
    }
    curve.points = std::move(corrected);
  }
  return curve;
}

}  // namespace

void set_roofline(sim::DeviceSpec& device, const std::vector<sim::TimedOperation>& ops) {
  double most_bytes = 0;
  for (const sim::TimedOperation& op : ops) {
    if (op.kind == name_of(OpClass::linear)) {
      double& fastest = device.tflops[op.dtype];
      fastest = std::max(fastest, op.operations / op.us * 1e-6);
    }
    if (op.kind == name_of(OpClass::elementwise) && op.bytes >= most_bytes) {
      most_bytes = op.bytes;
      device.bandwidth_gbs = op.bytes / op.us * 1e-3;
    }
  }
}

void set_efficiency(sim::DeviceSpec& device, const std::vector<sim::TimedOperation>& ops) {
  std::map<std::string, std::map<std::string, Octaves>> all;
  for (const sim::TimedOperation& op : ops) {
    const double ideal = 1e6 * sim::ideal_seconds_of(op, device);
    if (ideal <= 0) continue;  // it has neither operations nor bytes
    const int parts = op.kind == name_of(OpClass::attention) ? 4 : 1;
    const double told_apart = std::max(ideal, device.launch_us / 4);
    const int octave = static_cast<int>(std::floor(parts * std::log2(told_apart)));
    all[op.dtype][op.kind][octave].push_back({ideal, op.us});
  }
  for (const auto& [dtype, classes] : all)
    for (const auto& [name, octaves] : classes) device.efficiency[dtype][name] = curve_of(octaves);
}

std::vector<std::string> complete_efficiency(sim::DeviceSpec& device) {
  const auto measured = device.efficiency;
  const auto find = [&](const std::string& dtype, OpClass kind) -> const sim::Efficiency* {
    const auto classes = measured.find(dtype);
    if (classes == measured.end()) return nullptr;
    for (auto one = std::optional(kind); one; one = stand_in(*one))
      if (const auto found = classes->second.find(std::string(name_of(*one)));
          found != classes->second.end())
        return &found->second;
    return nullptr;
  };
  std::vector<std::string> assumed;
  for (const auto& [dtype, peak] : device.tflops)
    for (std::size_t i = 0; i < op_classes; ++i) {
      const auto kind = static_cast<OpClass>(i);
      if (find(dtype, kind)) continue;
      const sim::Efficiency* like = is_product(kind) ? find(dtype, OpClass::linear) : nullptr;
      for (auto other = measured.begin(); !like && other != measured.end(); ++other)
        like = find(other->first, kind);
      for (auto other = measured.begin(); !like && other != measured.end(); ++other)
        like = find(other->first, is_product(kind) ? OpClass::linear : OpClass::elementwise);
      if (!like) throw Error("no operation of class {} was timed in any precision", name_of(kind));
      device.efficiency[dtype][std::string(name_of(kind))] = *like;
      assumed.push_back(fmt::format("efficiency.{}.{}", dtype, name_of(kind)));
    }
  return assumed;
}

}  // namespace ringside::tools::calibrate
