// A parameter server's configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "core/base/named_enum.h"
#include "core/compress/compression.h"
#include "core/models/initial_values.h"
#include "core/optim/optimizer.h"
#include "ps/protocol/consistency.h"

namespace ringside::ps {

/// The factor on the learning rate of an update whose gradient is stale by t updates: 1, or 1 / (1
/// + t) (Zhang et al., IJCAI 2016).
enum class StalenessLr : std::uint8_t { none, inverse };
inline constexpr std::string_view staleness_lr_names[] = {"none", "inverse"};
constexpr EnumNames names_of(StalenessLr) { return staleness_lr_names; }
inline double lr_factor(StalenessLr rule, std::int64_t staleness) {
  return rule == StalenessLr::inverse ? 1 / (1 + static_cast<double>(staleness)) : 1;
}

/// Makes a server's optimizer, which is not the plan's, for its part of the model.
using MakeServerOptimizer =
    std::function<std::unique_ptr<Optimizer>(Device& device, const Tensor& parameters)>;

/// How what workers push and read is compressed.
struct ChunkCompression {
  CompressionOptions pushes{}, pulls{};
  std::uint64_t seed = 1;
};

/// The name of the values that a worker has of the servers', in checkpoints of runs where these are
/// not the servers' own values.
inline constexpr std::string_view state_of_workers = "worker_values";

struct ServerConfig {
  int server = 0;
  int workers = 1;
  std::uint64_t token = 0;
  std::shared_ptr<const InitialValues> initial_values = drawn_values(1);
  DType dtype = DType::f32;  // dtype of parameters and gradients
  OptimizerConfig optimizer{};
  ConsistencyRules rules{};
  std::shared_ptr<const Policy> policy{};  // null: that of `rules`
  MakeServerOptimizer make_optimizer{};    // null: that of `optimizer` and `rules`
  StalenessLr staleness_lr = StalenessLr::none;
  double delay_compensation = 0;  // asp: the factor of the correction; 0: none
  double moving_rate = 0;         // easgd
  std::int64_t period = 1;        // steps of a worker from one push to its next one, at most
  ChunkCompression codes{};
  bool by_speed = false;    // a slower worker takes fewer steps than `period`: its share
  std::int64_t steps = 1;   // steps of the run
  std::int64_t pushes = 1;  // how often a worker pushes each chunk's gradient in a step
  std::int64_t warmup = 0;  // steps left out of the optimizer's time and of staleness
  bool skips = false;       // skips_steps(); with fp16 gradients it always is so

  bool skips_steps() const { return skips || dtype == DType::f16; }
};

/// The optimizer and the number of updates of a run on servers. With asp every gradient of a worker
/// is an update, so schedules that count steps count N times as many updates. (With easgd servers
/// have no optimizer; workers have the plan's.)
struct UpdateRules {
  OptimizerConfig optimizer;
  std::int64_t updates = 0;
};
UpdateRules update_rules(const OptimizerConfig& optimizer, const ConsistencyRules& rules,
                         std::int64_t steps, int workers);

}  // namespace ringside::ps
