// A worker or server of a job.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"
#include "core/launch/rank_link.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/bench/ps_job.h"
#include "experiments/tools/bench/ps_rank.h"

namespace ringside::tools::bench {
namespace {

[[noreturn]] void end(bool well, const std::string& complaint) {
  if (!well) fmt::print(stderr, "ringside: bench ps: {}\n", complaint);
  std::fflush(nullptr);
  _exit(well ? 0 : 1);
}

/// The scheduler's first answer; none if it has ended. A scheduler that does not begin says so
/// itself, unless it stands still: then this throws Error.
std::optional<nlohmann::json> first_answer(const PsJob& job, RankLink& link, double timeout_s) {
  constexpr double nap_s = 0.1, grace_s = 1;
  WaitingTime waited(seconds_now(), nap_s);
  while (waited.seconds(seconds_now()) < timeout_s + grace_s)
    if (auto answer = link.hear(nap_s); !answer || !answer->is_null()) return answer;
  throw Error(
      "the scheduler at {}:{} has said nothing within {} s (--timeout): it stands still, or "
      "its --timeout is longer",
      job.address, job.port, timeout_s);
}

/// What the scheduler makes of this process. Blocks until all processes of the job have come.
PsRoles take_place(const PsJob& job, RankLink& link, double timeout_s) {
  link.send({{"join",
              {{"role", name_of(job.role)},
               {"worker", job.worker},
               {"workers", job.workers},
               {"servers", job.servers}}}});
  try {
    const auto answer = first_answer(job, link, timeout_s);
    if (!answer)
      throw Error(
          "the scheduler has closed the connection before all processes of the job had come; "
          "either all are started with --keys or none");
    if (answer->contains("refused"))
      throw Error("the scheduler refuses this {}: {}", name_of(job.role),
                  (*answer)["refused"].get<std::string>());
    if (answer->contains("ended"))
      throw Error("the scheduler has ended the job: {}", (*answer)["ended"].get<std::string>());
    return {.rank = answer->at("rank").get<int>(),
            .workers = job.workers,
            .servers = job.servers,
            .threads = answer->at("threads").get<int>(),
            .timeout_s = answer->at("timeout_s").get<double>(),
            .partition_bytes = answer->at("partition_bytes").get<std::int64_t>(),
            .reach = job.reach,
            .program = job.program};
  } catch (const nlohmann::json::exception&) {
    throw Error("what listens at {}:{} is no scheduler of this program, or one with other --keys",
                job.address, job.port);
  }
}

/// Where a server of a job with keys listens, and what it tells the others.
ps::Reach reach_of(const PsJob& job, const std::function<void(const std::string&)>& say) {
  ps::Reach reach = job.reach;
  if (reach.keys.empty() || job.role != PsRole::server) return reach;
  if (!reach.address.empty()) return reach;
  reach.address =
      runner::own_address_towards(job.address, "set DMLC_NODE_HOST to this host's address");
  say(fmt::format(
      "this server listens at {}, by which it reaches the scheduler (DMLC_NODE_HOST sets another)",
      reach.address));
  return reach;
}

}  // namespace

void join_ps_job(const PsJob& job, double timeout_s,
                 const std::function<void(const std::string&)>& say) {
  constexpr const char* says_why = "the scheduler has ended; it says why";
  auto leader = runner::connect_to_leader(rendezvous_of(job), timeout_s, timeout_s);
  std::atomic<bool> placed = false;
  RankLink link(std::make_unique<JsonLine>(leader->release_socket()), [&](const std::string& why) {
    // Whatever this process waits for does not come any more.
    if (placed)
      end(false, why.empty() ? says_why
                             : fmt::format("a message of the scheduler makes no sense: {}", why));
    else if (!why.empty())
      end(false, fmt::format("what listens at {}:{} is no scheduler of this program, or one with "
                             "other --keys",
                             job.address, job.port));
  });
  PsRoles roles = take_place(job, link, timeout_s);
  placed = true;
  roles.reach = reach_of(job, say);
  std::optional<PsRank> rank;
  rank.emplace(roles, runner::find_device(DeviceConfig().kind).links, link.store(), std::nullopt);
  const auto hear = [&](double patience_s) {
    auto message = link.hear(patience_s);
    if (!message) end(false, says_why);
    return message;
  };
  const bool well =
      serve({hear, [&](const nlohmann::json& value) { link.send(value); }}, roles.rank, *rank);
  if (well && roles.works()) rank.reset();  // tells the servers
  placed = false;                           // the scheduler ends once all have
  link.stop_sending();
  leader.reset();
  end(well, fmt::format("{} failed; the scheduler says why", roles.name()));
}

}  // namespace ringside::tools::bench
