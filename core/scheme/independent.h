// The scheme without synchronisation: every worker trains a replica of its own.
#pragma once

#include <memory>

#include "core/scheme/scheme_info.h"

namespace ringside {

struct IndependentOptions {};

inline Fields fields_of(IndependentOptions&) { return {}; }

/// Every worker trains its own replica on its own samples, and sends nothing. All replicas start
/// with the same values. This is the upper bound of throughput for schemes that do synchronise.
std::unique_ptr<SyncScheme> make_independent(const RankContext& context);

/// The definition: the replicas of all workers of a run at world RunPlan::defines, side by side on
/// one rank.
std::unique_ptr<SyncScheme> define_independent(const RankContext& context);

/// The scheme's info, for the registry.
SchemeInfo independent_info();

}  // namespace ringside
