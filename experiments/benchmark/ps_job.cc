// The scheduler of a job.
#include "experiments/benchmark/ps_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"
#include "core/launch/json_line.h"
#include "experiments/benchmark/ps_bounds.h"
#include "experiments/benchmark/ps_contest.h"
#include "experiments/benchmark/ps_job_socket.h"
#include "experiments/benchmark/ps_way.h"

namespace ringside {
namespace {

constexpr int nap_ms = 50;

using Lines = std::vector<std::unique_ptr<JsonLine>>;

/// Waits a moment for whatever comes.
std::vector<bool> poll_sockets(const std::vector<int>& sockets) {
  std::vector<pollfd> polled;
  for (const int socket : sockets) polled.push_back({socket, POLLIN, 0});
  poll(polled.data(), polled.size(), nap_ms);
  std::vector<bool> ready;
  for (const pollfd& one : polled) ready.push_back(one.revents != 0);
  return ready;
}

/// What has come on a line; none if the line has ended or what has come makes no sense.
std::optional<std::vector<nlohmann::json>> receive(JsonLine& line) {
  try {
    return line.receive();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

/// Gives the processes of a job their ranks as they come.
class Gathering {
 public:
  Gathering(const PsJob& job, const PsBench& bench, const JobListener& listener)
      : job_(job), bench_(bench), listener_(listener) {
    names_ = names_of_ranks({.workers = job.workers, .servers = job.servers});
    joined_.resize(names_.size());
  }

  /// The lines to all ranks, by rank. Blocks until all have come.
  Lines gather() {
    WaitingTime waited(seconds_now(), 1e-3 * nap_ms);
    while (!missing().empty()) {
      if (bench_.interrupted()) throw Error("interrupted");
      if (waited.seconds(seconds_now()) > bench_.timeout_s)
        throw Error("bench ps: {} did not come to {}:{} within {} s (--timeout)",
                    fmt::join(missing(), ", "), job_.address, listener_.port(), bench_.timeout_s);
      listen();
    }
    for (std::size_t rank = 0; rank < joined_.size(); ++rank)
      joined_[rank]->send(
          {{"rank", rank}, {"threads", bench_.threads}, {"timeout_s", bench_.timeout_s}});
    return std::move(joined_);
  }

 private:
  std::vector<std::string> missing() const {
    std::vector<std::string> names;
    for (std::size_t rank = 0; rank < joined_.size(); ++rank)
      if (!joined_[rank]) names.push_back(names_[rank]);
    return names;
  }

  void listen() {
    std::vector<int> sockets = {listener_.socket()};
    for (const auto& line : joined_) sockets.push_back(line ? line->socket() : -1);
    for (const auto& line : strangers_) sockets.push_back(line->socket());
    const std::vector<bool> ready = poll_sockets(sockets);
    // Whoever has a place says nothing more, unless it ends: then another may have the place.
    for (std::size_t rank = 0; rank < joined_.size(); ++rank)
      if (ready[1 + rank]) joined_[rank].reset();
    Lines unheard;
    for (std::size_t i = 0; i < strangers_.size(); ++i) {
      if (!ready[1 + joined_.size() + i]) {
        unheard.push_back(std::move(strangers_[i]));
        continue;
      }
      const auto values = receive(*strangers_[i]);
      if (values && values->empty())
        unheard.push_back(std::move(strangers_[i]));
      else if (values)
        admit(std::move(strangers_[i]), values->front());
    }
    strangers_ = std::move(unheard);
    if (ready[0])
      if (const int socket = listener_.accept(); socket >= 0)
        strangers_.push_back(std::make_unique<JsonLine>(socket));
  }

  void admit(std::unique_ptr<JsonLine> line, const nlohmann::json& value) {
    try {
      joined_[place_for(value.at("join"))] = std::move(line);
    } catch (const std::exception& error) {
      line->send({{"refused", error.what()}});
    }
  }

  std::size_t place_for(const nlohmann::json& join) const {
    const int workers = join.at("workers").get<int>(), servers = join.at("servers").get<int>();
    if (workers != job_.workers || servers != job_.servers)
      throw Error(
          "the job has {} workers and {} servers (DMLC_NUM_WORKER, DMLC_NUM_SERVER), but the "
          "process "
          "was told of {} and {}",
          job_.workers, job_.servers, workers, servers);
    const std::string role = join.at("role").get<std::string>();
    const int asked = join.at("worker").get<int>();
    const auto w = static_cast<std::size_t>(job_.workers);
    if (role == name_of(PsRole::worker) && asked >= 0 && asked < job_.workers) {
      if (joined_[static_cast<std::size_t>(asked)])
        throw Error("there is a worker {} (DMLC_WORKER_ID) already", asked);
      return static_cast<std::size_t>(asked);
    }
    const bool works = role == name_of(PsRole::worker);
    for (std::size_t rank = works ? 0 : w; rank < (works ? w : joined_.size()); ++rank)
      if (!joined_[rank]) return rank;
    throw Error("the job has all its {}s", role);
  }

  const PsJob& job_;
  const PsBench& bench_;
  const JobListener& listener_;
  std::vector<std::string> names_;
  Lines joined_, strangers_;
};

/// The ranks' store, in a thread of its own.
class StoreService {
 public:
  explicit StoreService(Lines lines)
      : lines_(std::move(lines)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  /// Tells the ranks that the job is over.
  void end() {
    for (const auto& line : lines_) line->send({{"over", true}});
  }

 private:
  void run(const std::stop_token& stop) {
    std::vector<int> sockets;
    for (const auto& line : lines_) sockets.push_back(line->socket());
    while (!stop.stop_requested()) {
      const std::vector<bool> ready = poll_sockets(sockets);
      for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
        if (!ready[rank] || sockets[rank] < 0) continue;
        const auto values = receive(*lines_[rank]);
        if (!values) sockets[rank] = -1;  // its other connection says so too
        for (const nlohmann::json& value : values.value_or(std::vector<nlohmann::json>{}))
          handle(rank, value);
      }
    }
  }

  void handle(std::size_t rank, const nlohmann::json& value) {
    if (value.contains("set")) {
      const auto [key, text] = value["set"].get<std::pair<std::string, std::string>>();
      values_[key] = text;
      for (const std::size_t waiting : waiting_[key]) answer(waiting, key);
      waiting_.erase(key);
    } else if (value.contains("get")) {
      const auto key = value["get"].get<std::string>();
      if (values_.contains(key))
        answer(rank, key);
      else
        waiting_[key].push_back(rank);
    }
  }
  void answer(std::size_t rank, const std::string& key) {
    lines_[rank]->send({{"value", {key, values_[key]}}});
  }

  Lines lines_;  // by rank
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<std::size_t>> waiting_;  // ranks, by key
  std::jthread thread_;
};

/// Processes that somebody else has started, and has to look after.
class OthersProcesses : public RankProcesses {
 public:
  std::string cause_of_end(int) override { return "its connection is closed"; }
};

/// The ranks' second connections, over which they are told what to do.
std::vector<int> accept_ranks(const JobListener& listener, std::size_t count,
                              const PsBench& bench) {
  std::vector<int> sockets;
  WaitingTime waited(seconds_now(), 1e-3 * nap_ms);
  while (sockets.size() < count) {
    poll_sockets({listener.socket()});
    if (const int socket = listener.accept(); socket >= 0) sockets.push_back(socket);
    const bool late = waited.seconds(seconds_now()) > bench.timeout_s;
    if (!late && !bench.interrupted()) continue;
    for (const int socket : sockets) close(socket);
    throw Error("bench ps: {} of {} ranks are connected within {} s (--timeout)", sockets.size(),
                count, bench.timeout_s);
  }
  return sockets;
}

}  // namespace

void lead_ps_job(const PsJob& job, const PsBench& bench,
                 const std::function<void(int port)>& on_listening,
                 const std::function<void(const PsRow&)>& report) {
  const Patience patience{1.1 * bench.timeout_s, bench.interrupted};
  const auto bounds = fork_bounds(patience);
  const JobListener listener(job);
  on_listening(listener.port());
  StoreService store(Gathering(job, bench, listener).gather());
  std::vector<std::string> names = names_of_ranks({.workers = job.workers, .servers = job.servers});
  RankGroup ranks("bench ps", accept_ranks(listener, names.size(), bench),
                  std::make_unique<OthersProcesses>(), patience, names);
  run_ps_contest(bench, job.workers, job.servers, ranks, *bounds, report);
  store.end();
}

}  // namespace ringside
