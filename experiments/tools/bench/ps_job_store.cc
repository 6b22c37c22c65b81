#include "experiments/tools/bench/ps_job_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "experiments/runner/hosts/pending_connections.h"

namespace ringside::tools::bench {
namespace {

constexpr int nap_ms = 50;
/// How long the store waits for a rank that does not read. Meanwhile nobody else is answered.
constexpr timeval longest_send = {.tv_sec = 1, .tv_usec = 0};
/// Of keys and values, and of questions that nobody has answered. Every size, way and server of a
/// bench takes a few dozen bytes.
constexpr std::size_t most_bytes = 64 << 20, most_questions = 1 << 20;

/// JsonLine does not tell the end of a stream from a line that is too long.
bool has_ended(int socket) {
  char next = 0;
  return recv(socket, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

JobStore::JobStore(std::vector<std::unique_ptr<JsonLine>> lines, std::vector<std::string> names,
                   std::function<void(const std::string&)> on_refused)
    : lines_(std::move(lines)),
      names_(std::move(names)),
      on_refused_(std::move(on_refused)),
      states_(lines_.size(), State::open) {
  for (const auto& line : lines_)
    setsockopt(line->socket(), SOL_SOCKET, SO_SNDTIMEO, &longest_send, sizeof longest_send);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void JobStore::end(const Patience& patience) {
  over_ = true;
  for (std::size_t rank = 0; rank < lines_.size(); ++rank)
    if (!lines_[rank]->send({{"over", true}})) cut_off(rank, "it does not read");
  const double end = seconds_now() + patience.timeout_s;
  while (!those(State::open).empty() && seconds_now() < end && !patience.interrupted())
    std::this_thread::sleep_for(std::chrono::milliseconds(nap_ms / 10));
  std::vector<std::string> deaf = those(State::open);
  for (const std::string& name : those(State::gone)) deaf.push_back(name);
  if (!deaf.empty())
    on_refused_(fmt::format("{} did not hear that the job is over", fmt::join(deaf, ", ")));
}

std::vector<std::string> JobStore::those(State state) const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < states_.size(); ++rank)
    if (states_[rank] == state) names.push_back(names_[rank]);
  return names;
}

void JobStore::set_state(std::size_t rank, State state) {
  std::lock_guard lock(mutex_);
  if (states_[rank] == State::open) states_[rank] = state;
}

void JobStore::cut_off(std::size_t rank, const std::string& cause) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(states_[rank], State::gone) == State::gone) return;
  }
  on_refused_(fmt::format("{} is cut off: {}", names_[rank], cause));
  shutdown(lines_[rank]->socket(), SHUT_RDWR);
}

void JobStore::run(const std::stop_token& stop) {
  std::vector<int> sockets;
  for (const auto& line : lines_) sockets.push_back(line->socket());
  while (!stop.stop_requested()) {
    const std::vector<bool> ready = runner::poll_files(sockets);
    for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
      if (!ready[rank] || sockets[rank] < 0) continue;
      try {
        const auto values = lines_[rank]->receive();
        if (!values) {
          // A rank that ends once the job is over has heard so. What its end means before that, the
          // bench sees by the rank's other connection.
          if (!has_ended(sockets[rank]))
            throw Error("a line is longer than {} B", runner::longest_job_line);
          set_state(rank, over_ ? State::heard : State::gone);
          sockets[rank] = -1;
        }
        for (const nlohmann::json& value : values.value_or(std::vector<nlohmann::json>{}))
          handle(rank, value);
      } catch (const std::exception& error) {
        cut_off(rank, error.what());
        sockets[rank] = -1;
      }
    }
  }
}

void JobStore::handle(std::size_t rank, const nlohmann::json& value) {
  if (value.contains("set")) {
    const auto [key, text] = value["set"].get<std::pair<std::string, std::string>>();
    const auto [kept, is_new] = values_.try_emplace(key);
    bytes_ += (is_new ? key.size() : 0) + text.size() - kept->second.size();
    kept->second = text;
    if (bytes_ > most_bytes) throw Error("the store of a job has {} bytes at most", most_bytes);
    for (const std::size_t waiting : waiting_[key]) answer(waiting, key);
    waiting_.erase(key);
  } else if (value.contains("get")) {
    const auto key = value["get"].get<std::string>();
    if (values_.contains(key)) return answer(rank, key);
    if (++asked_ > most_questions)
      throw Error("the store of a job keeps {} questions at most", most_questions);
    waiting_[key].push_back(rank);
  } else if (value.contains("heard") && over_) {
    set_state(rank, State::heard);
  } else {
    throw Error("a line neither sets nor asks");
  }
}

void JobStore::answer(std::size_t rank, const std::string& key) {
  if (!lines_[rank]->send({{"value", {key, values_[key]}}})) cut_off(rank, "it does not read");
}

}  // namespace ringside::tools::bench
