#include "experiments/tools/bench/connected_ranks.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/local_socket.h"

namespace ringside::tools::bench {
namespace {

/// How long a rank that does not read is waited for. Meanwhile no other one is answered.
constexpr timeval longest_send = {.tv_sec = 1, .tv_usec = 0};

/// JsonLine does not tell the end of a stream from a line that is too long, or not read.
bool has_ended(int socket) {
  char next = 0;
  const ssize_t n = recv(socket, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/// Whether the other end is gone, even if something that it has sent is still to be read.
bool is_gone(int socket) {
  pollfd watched{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&watched, 1, 0) > 0;
}

}  // namespace

ConnectedRanks::ConnectedRanks(std::vector<std::unique_ptr<JsonLine>> lines,
                               std::vector<std::string> names,
                               std::function<void(const std::string&)> on_refused)
    : lines_(std::move(lines)), names_(std::move(names)), on_refused_(std::move(on_refused)) {
  for (const auto& line : lines_)
    setsockopt(line->socket(), SOL_SOCKET, SO_SNDTIMEO, &longest_send, sizeof longest_send);
}

void ConnectedRanks::start(const RunPlan&, int) { throw Error("others start these ranks"); }

void ConnectedRanks::send(int rank, const nlohmann::json& value) {
  const auto& line = lines_.at(static_cast<std::size_t>(rank));
  over_ = over_ || value.contains("over");
  if (line && !line->send(value) && !is_gone(line->socket())) cut_off(rank, "it does not read");
}

std::vector<int> ConnectedRanks::files() const {
  std::vector<int> out;
  for (const auto& line : lines_)
    if (line) out.push_back(line->socket());
  return out;
}

void ConnectedRanks::read(RankEvents& events) {
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    const int rank = static_cast<int>(r);
    try {
      while (lines_[r] && has_news(lines_[r]->socket())) {
        const auto values = lines_[r]->receive();
        if (!values && !has_ended(lines_[r]->socket()))
          throw Error("it sends a line that is too long");
        for (const nlohmann::json& value : values.value_or(std::vector<nlohmann::json>()))
          events.line(rank, value);
        if (values) continue;
        lines_[r].reset();
        lost_.push_back(rank);
      }
    } catch (const std::exception& error) {
      cut_off(rank, error.what());
    }
  }
  if (lost_.empty()) return;
  const std::string cause = over_ ? "" : cause_of_end();  // may wait for programs to end
  for (const int rank : std::exchange(lost_, {}))
    events.ended(rank, {.status = {}, .last_line = {}, .cause = cause});
}

bool ConnectedRanks::connected() const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [](const auto& line) { return line != nullptr; });
}

void ConnectedRanks::cut_off(int rank, const std::string& cause) {
  const auto r = static_cast<std::size_t>(rank);
  if (!std::exchange(lines_.at(r), nullptr)) return;
  lost_.push_back(rank);
  if (on_refused_)
    on_refused_(fmt::format("{} is cut off: {}",
                            r < names_.size() ? names_[r] : fmt::format("rank {}", r), cause));
}

}  // namespace ringside::tools::bench
