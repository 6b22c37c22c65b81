#include "experiments/benchmark/ps_job_store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/seconds_now.h"

namespace ringside {
namespace {

constexpr int nap_ms = 50;
constexpr double last_moment_s = 2;
/// Of keys and values, and of questions that nobody has answered. Every size, way and server of a
/// bench takes a few dozen bytes.
constexpr std::size_t most_bytes = 64 << 20, most_questions = 1 << 20;

}  // namespace

std::vector<bool> poll_files(const std::vector<int>& files) {
  std::vector<pollfd> polled;
  for (const int file : files) polled.push_back({file, POLLIN, 0});
  poll(polled.data(), polled.size(), nap_ms);
  std::vector<bool> ready;
  for (const pollfd& one : polled) ready.push_back(one.revents != 0);
  return ready;
}

JobStore::JobStore(std::vector<std::unique_ptr<JsonLine>> lines, std::vector<std::string> names,
                   std::function<void(const std::string&)> on_refused)
    : lines_(std::move(lines)),
      names_(std::move(names)),
      on_refused_(std::move(on_refused)),
      left_(lines_.size()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void JobStore::end() {
  for (const auto& line : lines_) line->send({{"over", true}});
  const double end = seconds_now() + last_moment_s;
  while (left_ > 0 && seconds_now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(nap_ms / 10));
}

void JobStore::run(const std::stop_token& stop) {
  std::vector<int> sockets;
  for (const auto& line : lines_) sockets.push_back(line->socket());
  while (!stop.stop_requested()) {
    const std::vector<bool> ready = poll_files(sockets);
    for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
      if (!ready[rank] || sockets[rank] < 0) continue;
      try {
        const auto values = lines_[rank]->receive();
        if (!values) {  // the rank's other connection says so too
          sockets[rank] = -1;
          --left_;
        }
        for (const nlohmann::json& value : values.value_or(std::vector<nlohmann::json>{}))
          handle(rank, value);
      } catch (const std::exception& error) {
        on_refused_(fmt::format("{} is cut off: {}", names_[rank], error.what()));
        shutdown(std::exchange(sockets[rank], -1), SHUT_RDWR);
        --left_;
      }
    }
  }
}

void JobStore::handle(std::size_t rank, const nlohmann::json& value) {
  if (value.contains("set")) {
    const auto [key, text] = value["set"].get<std::pair<std::string, std::string>>();
    bytes_ += key.size() + text.size();
    if (bytes_ > most_bytes) throw Error("the store of a job has {} bytes at most", most_bytes);
    values_[key] = text;
    for (const std::size_t waiting : waiting_[key]) answer(waiting, key);
    waiting_.erase(key);
  } else if (value.contains("get")) {
    const auto key = value["get"].get<std::string>();
    if (values_.contains(key)) return answer(rank, key);
    if (++asked_ > most_questions)
      throw Error("the store of a job keeps {} questions at most", most_questions);
    waiting_[key].push_back(rank);
  } else {
    throw Error("a line neither sets nor asks");
  }
}

void JobStore::answer(std::size_t rank, const std::string& key) {
  lines_[rank]->send({{"value", {key, values_[key]}}});
}

}  // namespace ringside
