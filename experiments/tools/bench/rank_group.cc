#include "experiments/tools/bench/rank_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <numeric>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"

namespace ringside::tools::bench {
namespace {

constexpr int group_poll_ms = 100;
constexpr std::size_t longest_line = 4 << 20;  // the times of a hundred thousand calls

std::string first_word(const std::string& line) { return line.substr(0, line.find(' ')); }
std::string after_first_word(const std::string& line) {
  const std::size_t space = line.find(' ');
  return space == std::string::npos ? "" : line.substr(space + 1);
}

}  // namespace

RankGroup::RankGroup(std::string name, std::vector<int> sockets,
                     std::unique_ptr<RankProcesses> processes, Patience patience,
                     std::vector<std::string> ranks)
    : name_(std::move(name)),
      ranks_(std::move(ranks)),
      processes_(std::move(processes)),
      patience_(std::move(patience)),
      sockets_(std::move(sockets)),
      received_(sockets_.size()) {
  for (std::size_t r = ranks_.size(); r < sockets_.size(); ++r)
    ranks_.push_back(fmt::format("rank {}", r));
  try {
    order_by_rank();
  } catch (...) {
    close_sockets();
    throw;
  }
}

RankGroup::~RankGroup() { close_sockets(); }

void RankGroup::close_sockets() {
  for (const int socket : std::exchange(sockets_, {})) ::close(socket);
}

void RankGroup::close() {
  close_sockets();
  processes_->wait_for_end();
}

void RankGroup::order_by_rank() {
  const auto ranks = answers("start", "hello");
  std::vector<int> by_rank(sockets_.size(), -1);
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    std::istringstream words(ranks[i]);
    std::size_t rank = sockets_.size();
    if (!(words >> rank) || rank >= sockets_.size() || by_rank[rank] >= 0)
      throw Error("{}: {} ranks, of which one says 'hello {}'", name_, sockets_.size(), ranks[i]);
    by_rank[rank] = sockets_[i];
    if (note_.empty()) std::getline(words >> std::ws, note_);
  }
  sockets_ = by_rank;
}

void RankGroup::prepare(std::string_view operation, std::int64_t count) {
  ask(fmt::format("array {} {}", operation, count), "ready");
}

std::vector<double> RankGroup::turn(const std::string& way, int calls, From from) {
  const auto n = static_cast<std::size_t>(calls);
  const bool first = from == From::first_begin;
  std::vector<double> begins(n, first ? std::numeric_limits<double>::infinity() : 0), ends(n),
      us(n);
  for (const std::string& times : ask(fmt::format("turn {} {}", way, calls), "times")) {
    if (times.empty()) continue;  // of a rank that only serves
    std::istringstream words(times);
    for (std::size_t call = 0; call < n; ++call) {
      double begin = 0, end = 0;
      if (!(words >> begin >> end) || end < begin)
        throw Error("{}: 'times {}' are not those of {} calls", name_, times, calls);
      if (from == From::own_begin) {
        us[call] = std::max(us[call], (end - begin) * 1e6);
        continue;
      }
      begins[call] = first ? std::min(begins[call], begin) : std::max(begins[call], begin);
      ends[call] = std::max(ends[call], end);
    }
  }
  for (std::size_t call = 0; call < n && from != From::own_begin; ++call)
    us[call] = (ends[call] - begins[call]) * 1e6;
  return us;
}

std::int64_t RankGroup::count_wrong() {
  std::int64_t sum = 0;
  for (const std::string& text : ask("check", "wrong")) {
    std::istringstream words(text);
    std::int64_t wrong = 0;
    if (!(words >> wrong)) throw Error("{}: 'wrong {}' is no number", name_, text);
    sum += wrong;
  }
  return sum;
}

std::vector<std::string> RankGroup::ask(const std::string& command, const std::string& expected) {
  const std::string line = command + "\n";
  for (const int socket : sockets_)  // a rank that has ended shows when the answers are read
    (void)!send(socket, line.data(), line.size(), MSG_NOSIGNAL);
  return answers(command, expected);
}

std::vector<std::string> RankGroup::answers(const std::string& command,
                                            const std::string& expected) {
  std::vector<std::string> out(sockets_.size());
  std::vector<bool> answered(sockets_.size());
  WaitingTime waited(seconds_now(), 1e-3 * group_poll_ms);
  for (std::size_t left = sockets_.size(); left > 0;) {
    std::vector<pollfd> polled;
    for (std::size_t r = 0; r < sockets_.size(); ++r)
      // Whoever has answered may still be needed by the others.
      polled.push_back({sockets_[r], static_cast<short>(answered[r] ? POLLRDHUP : POLLIN), 0});
    if (poll(polled.data(), polled.size(), group_poll_ms) == 0) processes_->look();
    if (patience_.interrupted()) throw Error("interrupted");
    std::string complaint;
    for (std::size_t r = 0; r < sockets_.size(); ++r) {
      bool ended = false;
      if (polled[r].revents == 0) continue;
      if (answered[r]) {
        std::string last;
        if (receive(r, last, ended) && first_word(last) == "error") {
          complaint = fmt::format("{}: {}", ranks_[r], after_first_word(last));
          continue;
        }
        ended = true;
      }
      if (ended || !receive(r, out[r], ended)) {
        // An end is the cause of what other ranks complain about.
        if (ended)
          throw Error("{}: {} ended during '{}': {}", name_, ranks_[r], command,
                      processes_->cause_of_end(static_cast<int>(r)));
        continue;
      }
      answered[r] = true;
      --left;
      if (const std::string word = first_word(out[r]); complaint.empty() && word != expected)
        complaint = word == "error"
                        ? fmt::format("{}: {}", ranks_[r], after_first_word(out[r]))
                        : fmt::format("{} answers '{}' to '{}'", ranks_[r], out[r], command);
      out[r] = after_first_word(out[r]);
    }
    if (!complaint.empty()) throw Error("{}: {}", name_, complaint);
    if (left > 0 && waited.seconds(seconds_now()) > patience_.timeout_s) give_up(command, answered);
  }
  return out;
}

bool RankGroup::receive(std::size_t r, std::string& line, bool& ended) {
  std::string& text = received_[r];
  std::size_t end = text.find('\n');
  if (end == std::string::npos) {
    char bytes[4096];
    const ssize_t n = recv(sockets_[r], bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    ended = n <= 0;
    if (ended) return false;
    text.append(bytes, static_cast<std::size_t>(n));
    end = text.find('\n');
    if (end == std::string::npos && text.size() > longest_line)
      throw Error("{}: {} sends a line of more than {} bytes", name_, ranks_[r], longest_line);
    if (end == std::string::npos) return false;
  }
  line = text.substr(0, end);
  text.erase(0, end + 1);
  return true;
}

void RankGroup::give_up(const std::string& command, const std::vector<bool>& answered) const {
  std::vector<std::string> missing;
  for (std::size_t r = 0; r < answered.size(); ++r)
    if (!answered[r]) missing.push_back(ranks_[r]);
  throw Error(
      "{}: no answer to '{}' within {} s from {}, which hang, or need more time (--timeout)", name_,
      command, patience_.timeout_s, fmt::join(missing, ", "));
}

}  // namespace ringside::tools::bench
