#include "experiments/tools/bench/rank_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"
#include "core/launch/process_end.h"

namespace ringside::tools::bench {
namespace {

constexpr int group_poll_ms = 100;
/// How long a rank whose line has ended may take to end, so that its end can be explained.
constexpr double explained_end_s = 2;

}  // namespace

RankGroup::RankGroup(std::string name, std::unique_ptr<RankHost> host, int world, Patience patience,
                     std::vector<std::string> ranks, StoreLimits limits)
    : name_(std::move(name)),
      patience_(std::move(patience)),
      ranks_(static_cast<std::size_t>(world)),
      store_([this](int rank, const nlohmann::json& value) { host_->send(rank, value); }, limits),
      host_(std::move(host)) {
  for (int r = std::ssize(ranks) < world ? static_cast<int>(ranks.size()) : world; r < world; ++r)
    ranks.push_back(fmt::format("rank {}", r));
  for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].name = ranks[r];
  name_ranks(ranks);
}

/// Ranks that have connected come in any order.
void RankGroup::name_ranks(const std::vector<std::string>& names) {
  const auto numbers = answers("start", "hello");
  std::vector<bool> taken(ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const std::size_t rank =
        numbers[i].is_number_unsigned() ? numbers[i].get<std::size_t>() : ranks_.size();
    if (rank >= ranks_.size() || taken[rank])
      throw Error("{}: {} ranks, of which one says 'hello {}'", name_, ranks_.size(),
                  numbers[i].dump());
    taken[rank] = true;
    ranks_[i].name = names[rank];
  }
}

void RankGroup::prepare(std::string_view operation, std::int64_t count) {
  ask({{"array", operation}, {"count", count}}, fmt::format("array {} {}", operation, count),
      "ready");
}

std::vector<double> RankGroup::turn(const std::string& way, int calls, From from) {
  const auto n = static_cast<std::size_t>(calls);
  const bool first = from == From::first_begin;
  std::vector<double> begins(n, first ? std::numeric_limits<double>::infinity() : 0), ends(n),
      us(n);
  for (const nlohmann::json& said :
       ask({{"turn", way}, {"calls", calls}}, fmt::format("turn {} {}", way, calls), "times")) {
    if (!said.is_array())
      throw Error("{}: 'times {}' are not those of {} calls", name_, said.dump(), calls);
    const auto times = said.get<std::vector<double>>();
    if (times.empty()) continue;  // of a rank that only serves
    for (std::size_t call = 0; call < n; ++call) {
      if (times.size() != 2 * n || times[2 * call + 1] < times[2 * call])
        throw Error("{}: 'times {}' are not those of {} calls", name_, said.dump(), calls);
      const double begin = times[2 * call], end = times[2 * call + 1];
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
  for (const nlohmann::json& wrong : ask({{"check", true}}, "check", "wrong")) {
    if (!wrong.is_number_integer()) throw Error("{}: 'wrong {}' is no number", name_, wrong.dump());
    sum += wrong.get<std::int64_t>();
  }
  return sum;
}

std::vector<std::string> RankGroup::close(double timeout_s) {
  send_all({{"over", true}});
  std::vector<std::string> left;
  for (const double end = seconds_now() + timeout_s;;) {
    left.clear();
    for (const Rank& rank : ranks_)
      if (!rank.end) left.push_back(rank.name);
    if (left.empty() || seconds_now() > end || patience_.interrupted()) return left;
    listen();
  }
}

void RankGroup::send_all(const nlohmann::json& command) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) host_->send(static_cast<int>(r), command);
}

std::vector<nlohmann::json> RankGroup::ask(const nlohmann::json& command, const std::string& said,
                                           const std::string& expected) {
  send_all(command);  // a rank that has ended shows when the answers are read
  return answers(said, expected);
}

std::vector<nlohmann::json> RankGroup::answers(const std::string& said,
                                               const std::string& expected) {
  WaitingTime waited(seconds_now(), 1e-3 * group_poll_ms);
  const auto answered = [](const Rank& rank) { return rank.answer.has_value(); };
  for (;;) {
    if (patience_.interrupted()) throw Error("interrupted");
    judge(said);
    if (std::all_of(ranks_.begin(), ranks_.end(), answered)) break;
    if (waited.seconds(seconds_now()) > patience_.timeout_s) give_up(said);
    listen();
  }
  std::vector<nlohmann::json> out;
  for (Rank& rank : ranks_) {
    const nlohmann::json answer = *std::exchange(rank.answer, {});
    if (!answer.contains(expected))
      throw Error("{}: {} answers '{}' to '{}'", name_, rank.name, answer.dump(), said);
    out.push_back(answer[expected]);
  }
  return out;
}

void RankGroup::listen() {
  wait_for_news({host_.get()}, {}, group_poll_ms);
  host_->read(*this);
}

void RankGroup::judge(const std::string& said) {
  const auto complaint = std::find_if(ranks_.begin(), ranks_.end(),
                                      [](const Rank& rank) { return !rank.complaint.empty(); });
  const auto ended = [](const Rank& rank) { return rank.end && rank.complaint.empty(); };
  // An end is the cause of what other ranks complain about.
  for (const double end = seconds_now() + explained_end_s;
       complaint != ranks_.end() && host_->expects_end() && seconds_now() < end;)
    listen();
  for (const Rank& rank : ranks_)
    if (ended(rank))
      throw Error(
          "{}: {} ended during '{}': {}", name_, rank.name, said,
          rank.end->status ? words_for_end(*rank.end->status) + rank.end->memory : rank.end->cause);
  if (complaint != ranks_.end())
    throw Error("{}: {}: {}", name_, complaint->name, complaint->complaint);
}

void RankGroup::line(int rank, const nlohmann::json& value) {
  if (store_.hear(rank, value)) return;
  Rank& self = ranks_.at(static_cast<std::size_t>(rank));
  if (value.contains("error"))
    self.complaint = value["error"].get<std::string>();
  else
    self.answer = value;
  if (note_.empty() && value.contains("note")) note_ = value["note"].get<std::string>();
}

void RankGroup::output(int, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void RankGroup::ended(int rank, const RankEnd& end) {
  ranks_.at(static_cast<std::size_t>(rank)).end = end;
}

void RankGroup::give_up(const std::string& said) const {
  std::vector<std::string> missing;
  for (const Rank& rank : ranks_)
    if (!rank.answer) missing.push_back(rank.name);
  throw Error(
      "{}: no answer to '{}' within {} s from {}, which hang, or need more time (--timeout)", name_,
      said, patience_.timeout_s, fmt::join(missing, ", "));
}

}  // namespace ringside::tools::bench
