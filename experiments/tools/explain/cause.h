// Causes of a step's extra time, with the evidence for each.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/scheme/scheme_info.h"
#include "experiments/tools/explain/evidence.h"

namespace ringside::tools::explain {

/// A remedy to try against a cause: other values of keys, another scheme, another world.
struct Remedy {
  std::string words;                // "smaller buckets"
  std::vector<Setting> settings{};  // keys of the experiment file, besides those of the case
  std::string scheme{};             // empty: that of the case
  int world = 0;                    // 0: that of the case
  std::string caveat{};             // a clause: "which is another training"
  std::string not_simulated{};      // why the simulator cannot predict the effect; else empty
};

/// A cause that was found.
struct Finding {
  std::string cause{};            // a name of causes()
  bool of_communication = false;  // whether its milliseconds are exposed communication
  /// The most time that a step could save if the cause were gone. Causes may claim the same
  /// milliseconds, so these figures do not add up.
  double ms = 0;
  std::string sentence{};  // with the figures on which it rests
  std::vector<Remedy> remedies{};
};

/// One cause that `explain` knows. `look` returns the finding if the cause is present in a case,
/// else none. It gets the findings of the causes before it in the list: general causes come after
/// the particular ones, and explain only the rest.
struct Cause {
  std::string_view name;
  bool of_communication;
  std::optional<Finding> (*look)(const Evidence& evidence, const std::vector<Finding>& before);
};

const std::vector<Cause>& causes();

/// A cause that accounts for a smaller share of a step is not named: repeats of one case often
/// differ by as much.
inline constexpr double least_share = 0.05;

/// The causes that are found, by the milliseconds that each accounts for, the largest first.
std::vector<Finding> findings_of(const Evidence& evidence);

// ---- the causes, by the part of the run in which time is lost

using Look = std::optional<Finding>(const Evidence&, const std::vector<Finding>&);

Look disturbed_machine, more_threads_than_cores, slow_rank, uneven_shares, reading_samples;
Look one_bucket, no_overlap, last_bucket, prefetch_off, prefetch_late, reduced_too_often,
    more_bytes;
Look busy_server, optimizer_of_servers, host_not_hidden;
Look bubble, imbalance_of_stages, exposed_sends;
Look recomputed, whole_optimizer, tiny_batch, long_communication;

// ---- remedies that are other schemes

Remedy all_reduce();
/// A server colocated with every worker, so that all links carry equally much.
Remedy servers_everywhere(const RunPlan& plan);
Remedy sharded_optimizer();

// ---- functions that causes share

/// An option of the case's scheme as text without quotes; none if the scheme has no such option.
std::optional<std::string> option_of(const RunPlan& plan, std::string_view name);
std::optional<double> number_of(const RunPlan& plan, std::string_view name);
/// The key of an option of the case's scheme: "scheme.ddp.bucket_mb".
std::string key_of(const RunPlan& plan, std::string_view option);
/// The ranks that exchange values in a step of the case's scheme.
SchemeTopology topology_of(const RunPlan& plan);
/// How the case's scheme divides the state of the model (SchemeInfo::divides); none if that is not
/// known.
std::optional<StateDivision> division_of(const RunPlan& plan);
/// MB (1e6 bytes) of the model's gradients as they are reduced over ranks.
double gradient_mb(const Evidence& evidence);
/// The GB/s of the link through which a worker or server of a simulated run on GPUs reaches others:
/// a network card's between machines, else that of the machine; none for real runs, and where ranks
/// share a memory.
std::optional<double> link_gbs(const RunPlan& plan);
/// Whether the workers are cores of one machine, which read each other's values in its memory.
/// There fewer bytes do not pay for the conversion of values.
bool share_a_memory(const RunPlan& plan);
/// The number with at most three significant digits: "0.83", "12.5", "250".
std::string short_number(double value);

}  // namespace ringside::tools::explain
