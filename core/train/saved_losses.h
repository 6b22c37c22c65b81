// The losses of a rank in a checkpoint, for the row of a run that goes on.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/checkpoint/checkpoint.h"
#include "core/observe/rank_record.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// Losses and evaluations so far, of the worker's micro-batches in order. `assignments` is how many
/// it has done, where it does not do every step of the run.
nlohmann::ordered_json saved_losses(const RankRecord& record, int worker,
                                    std::optional<std::int64_t> assignments);

/// Puts into a worker's record what belongs to it of the losses of all ranks in the manifest
/// ("losses" of its scalars). Steps that had other micro-batches have their sum in the place of the
/// first one. `same_algorithm`: scheme, options and world are those of the checkpoint. Returns how
/// many assignments the worker has done. Throws nlohmann::json::exception for another content.
std::int64_t restore_losses(const Manifest& manifest, const RunPlan& plan, int worker,
                            bool same_algorithm, RankRecord& record);

}  // namespace ringside
