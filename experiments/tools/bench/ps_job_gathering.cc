#include "experiments/tools/bench/ps_job_gathering.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"
#include "experiments/tools/bench/ps_way.h"

namespace ringside::tools::bench {
namespace {

constexpr double nap_s = 0.05;

}  // namespace

Gathering::Gathering(const PsJob& job, const PsBench& bench, ps::StreamListener& listener,
                     const PsJobReports& reports)
    : job_(job), bench_(bench), listener_(listener), refusals_(reports.on_refused) {
  names_ = names_of_ranks({.workers = job.workers, .servers = job.servers});
  joined_.resize(names_.size());
}

std::vector<std::unique_ptr<JsonLine>> Gathering::gather() {
  try {
    wait_for_all();
  } catch (const Error& error) {
    for (const Process& process : joined_)
      if (process.line) process.line->send({{"ended", error.what()}});
    throw;
  }
  std::vector<std::unique_ptr<JsonLine>> lines;
  for (std::size_t rank = 0; rank < joined_.size(); ++rank) {
    joined_[rank].line->send({{"rank", rank},
                              {"threads", bench_.threads},
                              {"timeout_s", bench_.timeout_s},
                              {"partition_bytes", bench_.partition_bytes}});
    lines.push_back(std::move(joined_[rank].line));
  }
  return lines;
}

void Gathering::wait_for_all() {
  runner::PendingConnections newcomers(listener_, refusals_);
  WaitingTime waited(seconds_now(), nap_s);
  while (!missing().empty()) {
    if (bench_.interrupted()) throw Error("interrupted");
    if (waited.seconds(seconds_now()) > bench_.timeout_s)
      throw Error("bench ps: {} did not come to {}:{} within {} s (--timeout)",
                  fmt::join(missing(), ", "), job_.address, listener_.port(), bench_.timeout_s);
    listen(newcomers);
  }
}

std::vector<std::string> Gathering::missing() const {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < joined_.size(); ++rank)
    if (!joined_[rank].line) names.push_back(names_[rank]);
  return names;
}

void Gathering::listen(runner::PendingConnections& newcomers) {
  std::vector<int> files = newcomers.files();
  const std::size_t first = files.size();
  for (const Process& process : joined_)
    files.push_back(process.line ? process.line->socket() : -1);
  std::vector<bool> ready = runner::poll_files(files);
  // Whoever has a place says nothing more, unless it ends: then another may have the place.
  for (std::size_t rank = 0; rank < joined_.size(); ++rank)
    if (ready[first + rank]) joined_[rank] = {};
  ready.resize(first);
  for (runner::AcceptedConnection& newcomer : newcomers.hear(ready)) admit(newcomers, newcomer);
}

void Gathering::admit(runner::PendingConnections& newcomers, runner::AcceptedConnection& newcomer) {
  try {
    const nlohmann::json& join = newcomer.said->at("join");
    const auto role = value_named<PsRole>(join.at("role").get<std::string>());
    if (!role || *role == PsRole::scheduler)
      return newcomers.refuse(newcomer, "a worker or a server may join, nobody else");
    check_fits(join, *role, newcomer.holder);
    try {
      const std::size_t place = place_for(*role, join.at("worker").get<int>());
      joined_[place] = {std::move(newcomer.line), newcomer.holder};
    } catch (const Error& error) {  // the one that was there before may still end
      newcomers.refuse(newcomer, error.what());
    }
  } catch (const nlohmann::json::exception&) {
    newcomers.refuse(newcomer, "its line does not say who it is");
  } catch (const Error& error) {
    newcomer.line->send({{"refused", error.what()}});
    throw Error("bench ps: a process that does not fit ends the job: {}", error.what());
  }
}

void Gathering::check_fits(const nlohmann::json& join, PsRole role,
                           const std::optional<ps::KeyHolder>& holder) const {
  const int workers = join.at("workers").get<int>(), servers = join.at("servers").get<int>();
  if (workers != job_.workers || servers != job_.servers)
    throw Error(
        "the job has {} workers and {} servers (DMLC_NUM_WORKER, DMLC_NUM_SERVER), but the process "
        "was told of {} and {}",
        job_.workers, job_.servers, workers, servers);
  const bool works = role == PsRole::worker;
  const int asked = join.at("worker").get<int>();
  if (holder && holder->server == works)
    throw Error("a {} says that it is a {}: its key is not one of a {}",
                holder->server ? "server" : "worker", name_of(role), name_of(role));
  if (holder && works && holder->worker != asked)
    throw Error("worker {} says that it is worker {}: its key is the one of worker {}",
                holder->worker, asked, holder->worker);
}

std::size_t Gathering::place_for(PsRole role, int asked) const {
  const bool works = role == PsRole::worker;
  const auto w = static_cast<std::size_t>(job_.workers);
  if (works && asked >= 0 && asked < job_.workers) {
    if (joined_[static_cast<std::size_t>(asked)].line)
      throw Error("there is a worker {} (DMLC_WORKER_ID) already", asked);
    return static_cast<std::size_t>(asked);
  }
  for (std::size_t rank = works ? 0 : w; rank < (works ? w : joined_.size()); ++rank)
    if (!joined_[rank].line) return rank;
  throw Error("the job has all its {}s", name_of(role));
}

}  // namespace ringside::tools::bench
