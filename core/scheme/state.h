// The state of a run, as its ranks keep it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/device.h"
#include "core/optim/optimizer.h"
#include "core/scheme/rank_context.h"

namespace ringside {

/// A flat range of fp32 values that a run needs to go on: elements [begin, begin + values.count())
/// of the values of this name. Most names have one value for each parameter of the model, in the
/// model's order; state of another shape, such as PowerSGD's matrices, has names of its own. Where
/// parameters have 16 bits, "parameters" are their master values.
struct StateRange {
  std::string name{};         // "parameters", "first_moment", or a scheme's own
  std::int64_t replica = -1;  // the worker whose own they are; -1: they are all workers'
  std::int64_t begin = 0;
  Tensor values{};              // shares the memory of its owner
  Device* device = nullptr;     // on which they lie; outlives the range
  int holder = 0, holders = 1;  // which of the ranks this is that hold the same values
  /// The state of which this is a copy when a run begins: "parameters" for DiLoCo's outer
  /// parameters. Empty: it begins with values of its own, such as zeros.
  std::string begins_as{};
  bool of_options = false;  // whether it means something under the same options alone
  /// Whether there is one value for each parameter of the model. If not, and ranks have parts of
  /// the model, it is state of the part.
  bool of_elements = true;
};
inline constexpr std::string_view state_parameters = "parameters";

/// Reads the values, or writes them, before it returns.
using StateVisitor = std::function<void(const StateRange& range)>;

/// A stretch of an optimizer's range: `count` elements, from `own` on, are those of the model from
/// `model` on. `parameters` are their parameters.
struct OwnStretch {
  std::int64_t own = 0, model = 0;
  Tensor parameters;
};

/// Visits the state of a worker_optimizer() (its parameters, and all that Optimizer::state()
/// names), stretch by stretch. `like` has the replica and the holders of every range.
void visit_optimizer(const RankContext& context, const Optimizer& optimizer,
                     const std::vector<OwnStretch>& stretches, const StateRange& like,
                     const StateVisitor& visit);
/// The same for an optimizer whose parameters lie on `of_parameters`, and its state on `of_state`.
void visit_optimizer(const Optimizer& optimizer, const std::vector<OwnStretch>& stretches,
                     const StateRange& like, Device& of_parameters, Device& of_state,
                     const StateVisitor& visit);

/// Visits a number that a scheme keeps on the host, such as that of a compressor's steps, as values
/// [begin, begin + 2) of `like`, which are of no elements: its lower and its upper 16 bits, which
/// fp32 holds exactly; or `times` times, one after the other. Afterwards `number` is what the
/// visitor left of the first.
void visit_number(Device& device, StateRange like, std::uint32_t& number, std::int64_t times,
                  const StateVisitor& visit);

}  // namespace ringside
