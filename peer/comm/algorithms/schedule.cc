#include "peer/comm/algorithms/schedule.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

/// The steps that one rank's program makes.
class Recorder : public Exchange {
 public:
  struct Message {
    int peer;
    std::int64_t count;
    bool sends;
  };

  Recorder(int rank, const std::vector<int>& hosts, Collective::Kind kind, std::int64_t count)
      : rank_(rank), hosts_(hosts), in_(count), out_(count) {
    if (kind == Collective::Kind::reduce_scatter) out_ /= size();
    if (kind == Collective::Kind::all_gather) in_ /= size();
  }

  int rank() const override { return rank_; }
  const std::vector<int>& hosts() const override { return hosts_; }
  std::int64_t count(Array array) const override { return array == Array::in ? in_ : out_; }
  void step(const std::vector<Sending>& sends, const std::vector<Receiving>& receives) override {
    steps.emplace_back();
    for (const Sending& one : sends) steps.back().push_back({one.to, one.from.count, true});
    for (const Receiving& one : receives) steps.back().push_back({one.from, one.into.count, false});
  }
  void copy(const Elements&, const Elements&) override {}
  void add(const Elements&, const Elements&) override {}

  std::vector<std::vector<Message>> steps;

 private:
  int rank_;
  const std::vector<int>& hosts_;
  std::int64_t in_, out_;
};

/// Whether the round is like the last of the rounds that `merged` stands for: it has the same
/// senders and receivers, and most of them move as much as before. Round a ring one chunk may be
/// shorter than the others; it moves on to the next pair in every step.
bool alike(const Round& merged, const Round& round) {
  if (merged.transfers.size() != round.transfers.size()) return false;
  std::size_t different = 0;
  for (std::size_t i = 0; i < round.transfers.size(); ++i) {
    const Transfer &a = merged.transfers[i], &b = round.transfers[i];
    if (a.from != b.from || a.to != b.to) return false;
    const std::int64_t each = a.count / merged.repeats;
    const std::int64_t tolerance = std::max<std::int64_t>(16, std::max(each, b.count) / 20);
    if (std::abs(each - b.count) > tolerance) ++different;
  }
  return 2 * different < round.transfers.size();
}

/// Appends the round, or merges it with the last one.
void append(std::vector<Round>& rounds, Round round) {
  if (rounds.empty() || !alike(rounds.back(), round)) {
    rounds.push_back(std::move(round));
    return;
  }
  for (std::size_t i = 0; i < round.transfers.size(); ++i)
    rounds.back().transfers[i].count += round.transfers[i].count;
  ++rounds.back().repeats;
}

/// A rank on its way through its steps.
struct Progress {
  std::size_t step = 0;  // the step that it is in
  std::size_t left = 0;  // messages of this step that are not over
};

}  // namespace

double latency_of(const Round& round, const std::function<double(int from, int to)>& of_message) {
  double slowest = 0, of_pair = 0;
  const Transfer* last = nullptr;
  for (const Transfer& one : round.transfers) {
    const bool same_pair = last && last->from == one.from && last->to == one.to;
    of_pair = (same_pair ? of_pair : 0) + of_message(one.from, one.to);
    slowest = std::max(slowest, of_pair);
    last = &one;
  }
  return static_cast<double>(round.repeats) * slowest;
}

std::vector<Round> schedule_of(const AlgorithmRow& row, const Collective& call, std::int64_t count,
                               const std::vector<int>& hosts) {
  std::vector<Recorder> ranks;
  for (int r = 0; r < static_cast<int>(hosts.size()); ++r) {
    ranks.emplace_back(r, hosts, call.kind, count);
    run_algorithm(row, call, ranks.back());
  }
  std::vector<Progress> progress(ranks.size());
  // Messages that one of their two ranks has posted and the other one has not, by (from, to).
  std::map<std::pair<int, int>, std::vector<std::int64_t>> sent, awaited;
  std::vector<std::size_t> entering(ranks.size());  // ranks that come to a step in this round
  for (std::size_t r = 0; r < ranks.size(); ++r) entering[r] = r;

  std::vector<Round> rounds;
  while (!entering.empty()) {
    Round round;
    for (const std::size_t r : entering) {
      if (progress[r].step == ranks[r].steps.size()) continue;
      const auto& messages = ranks[r].steps[progress[r].step];
      progress[r].left = messages.size();
      for (const auto& message : messages) {
        const auto own = static_cast<int>(r);
        const std::pair<int, int> pair =
            message.sends ? std::pair(own, message.peer) : std::pair(message.peer, own);
        auto& others = (message.sends ? awaited : sent)[pair];
        if (others.empty()) {
          (message.sends ? sent : awaited)[pair].push_back(message.count);
          continue;
        }
        if (others.front() != message.count)
          throw Error("algorithm {}: a message from rank {} to rank {} has {} elements and {}",
                      name_of(row.algorithm), pair.first, pair.second, others.front(),
                      message.count);
        others.erase(others.begin());
        round.transfers.push_back({pair.first, pair.second, message.count});
      }
    }
    entering.clear();
    for (const Transfer& one : round.transfers)
      for (const int rank : {one.from, one.to}) {
        const auto r = static_cast<std::size_t>(rank);
        if (--progress[r].left > 0) continue;
        ++progress[r].step;
        entering.push_back(r);
      }
    std::sort(entering.begin(), entering.end());
    std::sort(round.transfers.begin(), round.transfers.end(), [](const auto& a, const auto& b) {
      return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
    if (!round.transfers.empty()) append(rounds, std::move(round));
  }
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (progress[r].step < ranks[r].steps.size())
      throw Error("algorithm {}: rank {} of {} waits for ever in step {}", name_of(row.algorithm),
                  r, ranks.size(), progress[r].step);
  return rounds;
}

}  // namespace ringside::peer
