// A worker or server of a job.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.h"
#include "core/launch/json_line.h"
#include "core/launch/link_store.h"
#include "experiments/benchmark/ps_job_socket.h"
#include "experiments/benchmark/ps_rank.h"
#include "experiments/registry/registry.h"

namespace ringside {
namespace {

[[noreturn]] void end(bool well, const std::string& complaint) {
  if (!well) fmt::print(stderr, "ringside: bench ps: {}\n", complaint);
  std::fflush(nullptr);
  _exit(well ? 0 : 1);
}

/// What the scheduler makes of this process. Blocks until all processes of the job have come.
PsRoles take_place(const PsJob& job, JsonLine& line) {
  line.send({{"join",
              {{"role", name_of(job.role)},
               {"worker", job.worker},
               {"workers", job.workers},
               {"servers", job.servers}}}});
  for (;;) {
    const auto answers = line.receive();
    if (!answers) throw Error("the scheduler ended before all processes of the job had come");
    for (const nlohmann::json& answer : *answers) {
      if (answer.contains("refused"))
        throw Error("the scheduler refuses this {}: {}", name_of(job.role),
                    answer["refused"].get<std::string>());
      PsRoles roles{.workers = job.workers, .servers = job.servers, .program = job.program};
      roles.rank = answer.at("rank").get<int>();
      roles.threads = answer.at("threads").get<int>();
      roles.timeout_s = answer.at("timeout_s").get<double>();
      return roles;
    }
  }
}

/// Hands answers to the store until the scheduler says that the job is over. If the scheduler ends
/// without that, ends this process, whatever it waits for.
void receive_answers(JsonLine& line, LinkStore& store, std::promise<void>& over) {
  while (const auto answers = line.receive())
    for (const nlohmann::json& answer : *answers) {
      if (answer.contains("over")) return over.set_value();
      const auto& [key, text] = answer.at("value").get<std::pair<std::string, std::string>>();
      store.answer(key, text);
    }
  end(false, "the scheduler has ended; it says why");
}

}  // namespace

void join_ps_job(const PsJob& job, double timeout_s) {
  JsonLine line(connect_to_scheduler(job, timeout_s));
  const PsRoles roles = take_place(job, line);
  LinkStore store(line);
  const int socket = connect_to_scheduler(job, timeout_s);
  std::optional<PsRank> rank;
  rank.emplace(roles, find_device("cpu").links, store, std::nullopt);
  std::promise<void> over;
  std::thread(receive_answers, std::ref(line), std::ref(store), std::ref(over)).detach();
  if (!serve(socket, roles.rank, *rank))
    end(false, fmt::format("{} failed; the scheduler says why", roles.name()));
  if (roles.works()) rank.reset();  // tells the servers
  over.get_future().wait();
  end(true, "");
}

}  // namespace ringside
