// A worker or server of a job.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.h"
#include "core/base/json_line.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"
#include "core/launch/link_store.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/bench/ps_job.h"
#include "experiments/tools/bench/ps_rank.h"

namespace ringside {
namespace {

[[noreturn]] void end(bool well, const std::string& complaint) {
  if (!well) fmt::print(stderr, "ringside: bench ps: {}\n", complaint);
  std::fflush(nullptr);
  _exit(well ? 0 : 1);
}

struct Place {
  PsRoles roles;
  std::string ticket;  // for the second connection
};

/// The scheduler's first answer; none if it has ended. A scheduler that does not begin says so
/// itself, unless it stands still: then this throws Error.
std::optional<nlohmann::json> first_answer(const PsJob& job, JsonLine& line, double timeout_s) {
  constexpr double nap_s = 0.1, grace_s = 1;
  WaitingTime waited(seconds_now(), nap_s);
  for (pollfd news{line.socket(), POLLIN, 0};
       waited.seconds(seconds_now()) < timeout_s + grace_s;) {
    if (poll(&news, 1, static_cast<int>(1e3 * nap_s)) != 1) continue;
    const auto answers = line.receive();
    if (!answers) return {};
    if (!answers->empty()) return answers->front();
  }
  throw Error(
      "the scheduler at {}:{} has said nothing within {} s (--timeout): it stands still, or "
      "its --timeout is longer",
      job.address, job.port, timeout_s);
}

/// What the scheduler makes of this process. Blocks until all processes of the job have come.
Place take_place(const PsJob& job, JsonLine& line, double timeout_s) {
  line.send({{"join",
              {{"role", name_of(job.role)},
               {"worker", job.worker},
               {"workers", job.workers},
               {"servers", job.servers}}}});
  try {
    const auto answer = first_answer(job, line, timeout_s);
    if (!answer)
      throw Error(
          "the scheduler has closed the connection before all processes of the job had come; "
          "either all are started with --keys or none");
    if (answer->contains("refused"))
      throw Error("the scheduler refuses this {}: {}", name_of(job.role),
                  (*answer)["refused"].get<std::string>());
    if (answer->contains("ended"))
      throw Error("the scheduler has ended the job: {}", (*answer)["ended"].get<std::string>());
    return {{.rank = answer->at("rank").get<int>(),
             .workers = job.workers,
             .servers = job.servers,
             .threads = answer->at("threads").get<int>(),
             .timeout_s = answer->at("timeout_s").get<double>(),
             .partition_bytes = answer->at("partition_bytes").get<std::int64_t>(),
             .reach = job.reach,
             .program = job.program},
            answer->at("ticket").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    throw Error("what listens at {}:{} is no scheduler of this program, or one with other --keys",
                job.address, job.port);
  }
}

/// Hands answers to the store until the scheduler says that the job is over. If the scheduler ends
/// without that, ends this process, whatever it waits for.
void receive_answers(JsonLine& line, LinkStore& store, std::promise<void>& over) {
  try {
    while (const auto answers = line.receive())
      for (const nlohmann::json& answer : *answers) {
        if (answer.contains("over")) {
          line.send({{"heard", true}});
          return over.set_value();
        }
        const auto& [key, text] = answer.at("value").get<std::pair<std::string, std::string>>();
        store.answer(key, text);
      }
  } catch (const nlohmann::json::exception& error) {
    end(false, fmt::format("an answer of the scheduler makes no sense: {}", error.what()));
  }
  end(false, "the scheduler has ended; it says why");
}

/// Where a server of a job with keys listens, and what it tells the others.
ps::Reach reach_of(const PsJob& job, const std::function<void(const std::string&)>& say) {
  ps::Reach reach = job.reach;
  if (reach.keys.empty() || job.role != PsRole::server) return reach;
  if (!reach.address.empty()) return reach;
  reach.address = own_address_towards(job.address, "set DMLC_NODE_HOST to this host's address");
  say(fmt::format(
      "this server listens at {}, by which it reaches the scheduler (DMLC_NODE_HOST sets another)",
      reach.address));
  return reach;
}

}  // namespace

void join_ps_job(const PsJob& job, double timeout_s,
                 const std::function<void(const std::string&)>& say) {
  LeaderLink first(meeting_of(job), timeout_s, timeout_s);
  JsonLine line(first.release_socket());
  auto [roles, ticket] = take_place(job, line, timeout_s);
  roles.reach = reach_of(job, say);
  LinkStore store(line);
  LeaderLink second(meeting_of(job), roles.timeout_s, roles.timeout_s);
  const int socket = second.release_socket();
  ticket += '\n';
  (void)!send(socket, ticket.data(), ticket.size(), MSG_NOSIGNAL);  // else serve() sees the end
  std::optional<PsRank> rank;
  rank.emplace(roles, find_device("cpu").links, store, std::nullopt);
  std::promise<void> over;
  std::thread(receive_answers, std::ref(line), std::ref(store), std::ref(over)).detach();
  if (!serve(socket, roles.rank, *rank)) {
    second.finish();
    end(false, fmt::format("{} failed; the scheduler says why", roles.name()));
  }
  if (roles.works()) rank.reset();  // tells the servers
  over.get_future().wait();
  end(true, "");
}

}  // namespace ringside
