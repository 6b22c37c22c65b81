#include "experiments/tools/bench/published_collectives.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "core/base/error.h"
#include "experiments/runner/config/cluster_file.h"
#include "experiments/runner/config/toml.h"
#include "experiments/tools/bench/comm_bench.h"
#include "experiments/tools/bench/measured_table.h"
#include "experiments/tools/bench/rank/operations.h"

namespace ringside::tools::bench {
namespace {

constexpr std::string_view table_name = "collective";
constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t largest_mib = 1 << 20;

/// The busbw of an array that takes so many microseconds.
double busbw_of(const PublishedCollective& one, std::int64_t bytes, double us) {
  return 1e-3 * static_cast<double>(bytes) / us *
         find_comm_operation(one.operation).bus_factor(static_cast<double>(one.world));
}

/// Takes the sizes and figures from the table that the file names.
void read_table(PublishedCollective& one, const std::string& place) {
  if (!one.sizes_mib.empty() || !one.busbw.empty() || !one.sizes_b.empty() || !one.us.empty() ||
      !one.fitted.empty())
    throw Error(
        "{}: table = '{}' has the sizes and figures; leave out sizes_mib, busbw, sizes_b, us and "
        "fitted",
        place, one.table);
  const CommOperation& operation = find_comm_operation(one.operation);
  const MeasuredTable table = read_measured_table(one.table, one.operation, one.world);
  if (one.world == 0) one.world = table.ranks;
  if (one.world == 0) throw Error("{}: {} does not list its ranks; give world", place, one.table);
  if (table.ranks != 0 && table.ranks != one.world)
    throw Error("{}: world = {}, but {} is of {} ranks", place, one.world, one.table, table.ranks);
  for (std::size_t i = 0; i < table.sizes.size(); ++i) {
    const std::int64_t bytes = 4 * count_of(operation, table.sizes[i], static_cast<int>(one.world));
    if (bytes == 0) continue;  // fewer elements than ranks: no training sends that
    one.sizes.push_back(table.sizes[i]);
    one.busbw.push_back(busbw_of(one, table.sizes[i], table.us[i]));
  }
  if (one.sizes.empty())
    throw Error("{}: no array of {} has an element for each of {} ranks", place, one.table,
                one.world);
}

void check(const PublishedCollective& one, const std::string& place) {
  if (one.label.empty() || one.cluster.empty())
    throw Error("{}: [[{}]] needs a label and a cluster", place, table_name);
  if (!one.table.empty()) return;
  if (!one.sizes_b.empty() || !one.us.empty()) {
    if (!one.sizes_mib.empty() || !one.busbw.empty())
      throw Error("{}: give either sizes_mib and busbw or sizes_b and us", place);
    if (one.us.size() != one.sizes_b.size())
      throw Error("{}: us has {} figures for {} sizes; give one for each of sizes_b", place,
                  one.us.size(), one.sizes_b.size());
    for (const std::int64_t size : one.sizes_b)
      if (size < 4 || size >= mib)
        throw Error("{}: sizes_b: {} must lie between 4 and {}", place, size, mib - 1);
    for (const double figure : one.us)
      if (!(figure > 0)) throw Error("{}: us: {} must be above 0", place, figure);
    return;
  }
  if (one.sizes_mib.empty() || one.busbw.size() != one.sizes_mib.size())
    throw Error("{}: busbw has {} figures for {} sizes; give one for each of sizes_mib", place,
                one.busbw.size(), one.sizes_mib.size());
  for (const std::int64_t size : one.sizes_mib)
    if (size < 1 || size > largest_mib)
      throw Error("{}: sizes_mib: {} must lie between 1 and {}", place, size, largest_mib);
  for (const double figure : one.busbw)
    if (!(figure > 0)) throw Error("{}: busbw: {} must be above 0", place, figure);
  for (const std::int64_t size : one.fitted)
    if (std::find(one.sizes_mib.begin(), one.sizes_mib.end(), size) == one.sizes_mib.end())
      throw Error("{}: fitted: {} is not among sizes_mib", place, size);
}

/// Checks what the cluster decides.
void check_bench(const PublishedCollective& one, const std::string& place) {
  const CommBench bench = bench_of(one);
  const std::int64_t devices = bench.cluster->machines * bench.cluster->devices;
  if (one.world < 2 || one.world > devices)
    throw Error("{}: world = {}: cluster {} has {} devices; choose from 2 to {}", place, one.world,
                bench.cluster->name, devices, devices);
  try {
    check(bench);
  } catch (const Error& error) {
    throw Error("{}: {}", place, error.what());
  }
}

bool is_collective(const runner::TomlValue& one) {
  return one.path.size() == 1 && one.path[0] == table_name && !one.elements.empty();
}

/// Whether figure `i` is a time and no busbw.
bool is_time(const PublishedCollective& one, std::size_t i) { return one.sizes[i] < mib; }

std::vector<runner::PublishedFigure> simulate(const PublishedCollective& one,
                                              const std::string& name, bool tuning) {
  std::vector<runner::PublishedFigure> figures;
  CommBench bench = bench_of(one);
  if (!tuning) bench.cluster->collective.tuning = sim::CollectiveTuning::rings;
  const double error = bench.cluster->collective.error;
  run_comm_bench(bench, [&](const CommRow& row) {
    const std::size_t i = figures.size();
    const bool fitted = std::any_of(one.fitted.begin(), one.fitted.end(),
                                    [&](std::int64_t size) { return size * mib == one.sizes[i]; });
    const double here = is_time(one, i) ? row.p50 : row.bus_bw;
    figures.push_back({.experiment = name,
                       .label = one.label,
                       .world = row.world,
                       .figure = figure_of(one, i),
                       .published = is_time(one, i) ? busbw_of(one, one.sizes[i], 1) / one.busbw[i]
                                                    : one.busbw[i],
                       .here = here,
                       .interval = error == 0 ? std::nullopt
                                              : std::optional(runner::Interval{here / (1 + error),
                                                                               here * (1 + error)}),
                       .fitted = fitted,
                       .assumed = {bench.cluster->name, bench.cluster->assumed}});
  });
  return figures;
}

}  // namespace

Fields fields_of(PublishedCollective& one) {
  return {{"label", &one.label},  {"cluster", &one.cluster}, {"operation", &one.operation},
          {"world", &one.world},  {"table", &one.table},     {"sizes_mib", &one.sizes_mib},
          {"busbw", &one.busbw},  {"sizes_b", &one.sizes_b}, {"us", &one.us},
          {"fitted", &one.fitted}};
}

CommBench bench_of(const PublishedCollective& one) {
  CommBench bench;
  bench.operations = {one.operation};
  bench.algorithms = {Algorithm::native};
  bench.worlds = {static_cast<int>(one.world)};
  bench.sizes = one.sizes;
  bench.cluster = runner::read_cluster(one.cluster);
  return bench;
}

std::string figure_of(const PublishedCollective& one, std::size_t i) {
  const std::int64_t size = one.sizes[i];
  if (is_time(one, i)) return fmt::format("us, {} B", size);
  return size % mib == 0 ? fmt::format("GB/s, {} MiB", size / mib)
                         : fmt::format("GB/s, {} B", size);
}

bool lists_collectives(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) return false;
  const auto values = runner::read_toml(file);
  return std::any_of(values.begin(), values.end(), is_collective);
}

std::vector<PublishedCollective> read_collectives(const std::filesystem::path& file) {
  std::vector<PublishedCollective> out;
  for (const runner::TomlValue& value : runner::read_toml(file)) {
    if (!is_collective(value))
      throw Error(
          "{}: {} does not belong into a file of collectives, which has tables [[{}]] alone",
          value.place, fmt::join(value.path, "."), table_name);
    for (const runner::TomlElement& element : value.elements) {
      PublishedCollective& one = out.emplace_back();
      for (const runner::TomlValue& field : element.values)
        runner::put(field, fields_of(one), table_name);
      check(one, element.place);
      const auto beside = [&](const std::string& name) {
        return (file.parent_path() / name).lexically_normal().string();
      };
      one.cluster = beside(one.cluster);
      if (!one.table.empty()) {
        one.table = beside(one.table);
        read_table(one, element.place);
      }
      for (const std::int64_t size : one.sizes_mib) one.sizes.push_back(size * mib);
      for (std::size_t i = 0; i < one.sizes_b.size(); ++i) {
        one.sizes.push_back(one.sizes_b[i]);
        one.busbw.push_back(busbw_of(one, one.sizes_b[i], one.us[i]));
      }
      check_bench(one, element.place);
    }
  }
  return out;
}

std::vector<runner::PublishedFigure> simulate_collectives(
    const std::vector<PublishedCollective>& all, const std::string& experiment, bool tuning) {
  std::vector<runner::PublishedFigure> figures;
  for (const PublishedCollective& one : all) {
    const auto of_one = simulate(one, experiment, tuning);
    figures.insert(figures.end(), of_one.begin(), of_one.end());
  }
  return figures;
}

}  // namespace ringside::tools::bench
