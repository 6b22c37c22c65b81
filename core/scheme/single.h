// The reference: one rank that does all the work.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/scheme/scheme.h"

namespace ringside {

struct SingleOptions {
  std::int64_t replicas = 1;
};

Fields fields_of(SingleOptions& options);

/// Runs the micro-batches of all `replicas` one after the other. The number of micro-batches must
/// be a multiple of `replicas`; otherwise attach() throws Error.
std::unique_ptr<SyncScheme> make_single(const RankContext& context, const SingleOptions& options);

}  // namespace ringside
