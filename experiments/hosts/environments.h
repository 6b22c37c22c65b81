// The environments of all hosts of a job.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "experiments/hosts/job.h"

namespace ringside {

/// `own` is the environment of this process (describe_environment()). Returns it with those of all
/// hosts of the job: "hosts", a list, and, before everything else, "hosts_differ": of each member
/// in which environments differ, its value on every host. Blocks until all hosts have answered.
/// Throws Error if one does not. With `gpus` also GPUs are described.
nlohmann::ordered_json with_hosts(const nlohmann::ordered_json& own, const Job& job, bool gpus);

/// One line about what differs between hosts in such an environment; empty if nothing does.
std::string text_of_differences(const nlohmann::ordered_json& environment);

}  // namespace ringside
