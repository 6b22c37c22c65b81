// The [mesh] and [pipeline] tables of an experiment file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"
#include "core/base/named_enum.h"

namespace ringside {

/// The dimensions of a mesh of workers.
enum class MeshDimension : std::uint8_t {
  data,     // workers with different samples
  pipeline  // workers with different stages of the model
};
inline constexpr std::string_view mesh_dimension_names[] = {"data", "pipeline"};
constexpr EnumNames names_of(MeshDimension) { return mesh_dimension_names; }

struct MeshConfig {
  /// Workers along each dimension; data 0: as many as the world allows. In a plan their product is
  /// the world.
  std::int64_t data = 0, pipeline = 1;
  /// The dimension along which neighbouring workers follow each other, so that it lies within a
  /// machine.
  MeshDimension innermost = MeshDimension::data;
  bool operator==(const MeshConfig&) const = default;
};

Fields fields_of(MeshConfig& config);

/// The measure by which the units of a model are divided evenly over stages.
enum class StageBalance : std::uint8_t {
  parameters,  // of their numbers of parameters
  time         // of the time of their forward and backward: that of the simulated device, else as
               // `ringside calibrate` measured it, else by their floating-point operations
};
inline constexpr std::string_view stage_balance_names[] = {"parameters", "time"};
constexpr EnumNames names_of(StageBalance) { return stage_balance_names; }

/// What the stages of a plan have alike.
enum class StagesAlike : std::uint8_t { nothing, parameters, operations, measured, simulated };
inline constexpr std::string_view stages_alike_names[] = {
    "nothing", "parameters", "floating-point operations", "measured time", "simulated time"};
constexpr EnumNames names_of(StagesAlike) { return stages_alike_names; }

/// What a stage takes in a simulated run, in milliseconds for each micro-batch, in place of the
/// times of the simulated device: a paper's figures in, its table out.
struct StageProfile {
  double f = 0, b = 0, w = 0;  // F, I and W; B takes as long as I and W together
  double send = 0;             // a message between stages
  bool operator==(const StageProfile&) const = default;
};

struct PipelineConfig {
  std::string schedule = "1f1b";  // one of core/pipeline/makers.h, or the path of a CSV file
  std::string text{};             // in a plan: the text of that file, which other hosts do not have
  /// Stages of each worker; 0: as many as the schedule has, which is one unless it always has two.
  /// In a plan it is never 0, but where a file gives workers unequally many.
  std::int64_t chunks = 0;
  /// The most micro-batches of which a stage may hold activations, as a limit of memory; 0: all.
  std::int64_t most_in_flight = 0;
  StageBalance balance = StageBalance::parameters;
  /// The number of the first unit of each stage but the first; empty: by `balance`. In a plan they
  /// are never empty.
  std::vector<std::int64_t> cuts{};
  StagesAlike alike = StagesAlike::nothing;  // in a plan: `nothing` if cuts are given by hand
  /// Nothing else of a step takes time then: neither optimizer, losses and data nor the host. What
  /// the scheme sends along the data dimension does.
  StageProfile profile{};
  bool has_profile() const { return profile != StageProfile(); }
  /// Whether the optimizer of a stage goes ahead of the sums over stages, and is put right where
  /// they say otherwise (core/scheme/post_validation.h). It changes no bits.
  bool post_validation = false;
  bool operator==(const PipelineConfig&) const = default;
};

/// All but `text` and `alike`.
Fields fields_of(PipelineConfig& config);

}  // namespace ringside
