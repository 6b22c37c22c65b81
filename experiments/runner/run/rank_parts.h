// The parts of a rank that follow from its plan alone, for ranks of this program and of others.
#pragma once

#include <memory>

#include "core/data/loader.h"
#include "core/models/initial_values.h"
#include "core/models/model.h"
#include "core/observe/rank_record.h"
#include "core/plan/run_plan.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

/// Opens the file with the initial values of the parameters, and sets the units' running statistics
/// from it. Returns null if the plan names no file: then the plan's seed draws the values.
std::shared_ptr<const InitialValues> initial_weights(const RunPlan& plan, const Model& model);

/// Writes the record's host, tokens of a sample, least bytes of a step and, for rank 0, the work of
/// a sample. The record has its rank already.
void note_run(RankRecord& record, const RunPlan& plan, const SchemeInfo& scheme, const Model& model,
              const Loader& training);

}  // namespace ringside::runner
