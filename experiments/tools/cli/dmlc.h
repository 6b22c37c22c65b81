// The variables with which ps-lite and BytePS start workers, servers and schedulers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/tools/bench/ps_job.h"

namespace ringside::tools::cli {

/// The job that DMLC_ROLE (worker, server or scheduler), DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT,
/// DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_WORKER_ID and DMLC_NODE_HOST (both optional) describe;
/// none without DMLC_ROLE. `environment` are "NAME=value". The address in `reach` takes precedence
/// over DMLC_NODE_HOST. Throws Error that names the variable that is wrong or missing.
std::optional<bench::PsJob> ps_job_of(const std::vector<std::string>& environment,
                                      const ps::Reach& reach);

}  // namespace ringside::tools::cli
