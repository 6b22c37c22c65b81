#include "core/train/first_not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/plan/mesh.h"
#include "core/scheme/pipeline_group.h"
#include "core/train/part_of_run.h"

namespace ringside {
namespace {

/// Backward of one micro-batch in the stages before this one is what a rank does after the last.
constexpr double longest_wait_s = 10;

}  // namespace

std::optional<FirstNotFinite::Place> FirstNotFinite::own() const {
  const auto found = outputs_.first_not_finite();
  if (!found) return {};
  Place out{.unit = found->unit, .name = model_.units[found->unit]->name()};
  if (!context_.pipeline) return out;
  out.unit = model_.part->units[found->unit];
  out.stage = context_.pipeline->stage_of_unit(out.unit);
  out.begins_stage = std::ranges::count(model_.part->stages, found->unit) > 0;
  return out;
}

/// Of the ranks of one replica.
std::string FirstNotFinite::key(std::int64_t step, int rank) const {
  const RankContext& whole = whole_run(context_);
  const int data = mesh_place(whole.plan, whole.self().worker).data;
  return fmt::format("not-finite/step-{}/pipeline-{}/place-{}", step, data, rank);
}

void FirstNotFinite::tell(std::int64_t step) const {
  if (has_losses(context_) || !context_.device.has_values()) return;
  if (const std::optional<Place> first = own())
    whole_run(context_).store.set(key(step, context_.pipeline->rank()),
                                  nlohmann::json({{"unit", first->unit},
                                                  {"stage", first->stage},
                                                  {"begins", first->begins_stage},
                                                  {"name", first->name}})
                                      .dump());
}

std::optional<FirstNotFinite::Place> FirstNotFinite::told(std::int64_t step, int stage) const {
  const RankContext& whole = whole_run(context_);
  const int rank = context_.pipeline->schedule().ranks_of[static_cast<std::size_t>(stage)];
  if (rank == context_.pipeline->rank()) return {};  // own() knows all that this rank knows
  // Others that wait for this rank must not give up before it has spoken.
  const double wait_s = std::min(longest_wait_s, whole.plan.train.timeout_s / 2);
  try {
    // Ranks of a simulated cluster take turns: none goes on while another waits for the store.
    const auto note = whole.plan.cluster ? whole.store.try_get(key(step, rank))
                                         : whole.store.get(key(step, rank), wait_s);
    if (!note) return {};
    const auto json = nlohmann::json::parse(*note);
    return Place{json.at("unit"), json.at("stage"), json.at("begins"), json.at("name")};
  } catch (const Error&) {
    return {};  // no note: what came from there was finite
  }
}

std::string FirstNotFinite::text(std::int64_t step) const {
  std::optional<Place> first = own();
  if (!first) return "the outputs of all units are finite";
  while (first->begins_stage && first->stage > 0) {
    std::optional<Place> before = told(step, first->stage - 1);
    if (!before || before->unit >= first->unit) break;
    first = std::move(before);
  }
  return fmt::format("the output of unit {} is the first that is not finite", first->name);
}

}  // namespace ringside
