#include "ps/protocol/chunk_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"

namespace ringside::ps {

using Event = RangeEvent::Kind;

ChunkState::ChunkState(const Chunk& chunk, std::int64_t begin, int workers, std::int64_t pushes,
                       const Policy& policy, Merges& merges, std::size_t history_bytes, double now)
    : chunk_(chunk),
      begin_(begin),
      world_(workers),
      policy_(policy),
      merges_(merges),
      clocks_(policy, workers, pushes),
      turn_(chunk.member),
      readers_(workers, now),
      resting_(static_cast<std::size_t>(workers)),
      history_bytes_(history_bytes),
      history_{chunk.begin, chunk.count, {}, false} {
  for (int worker = 0; worker < workers; ++worker)
    if (!chunk.is_of(worker)) clocks_.leave(worker);
}

bool ChunkState::push(int worker, std::int64_t step, std::int64_t push, Tensor values,
                      float weight) {
  const std::int64_t before = clocks_.next(worker);
  const std::int64_t number = clocks_.push(worker, step, push, version_);
  const std::optional<std::int64_t> update = policy_.update_of(number, version_);
  note({update ? Event::accepted : Event::dropped, worker,
        policy_.shares_steps() ? number + 1 - before : 1});
  if (!update) {
    ++dropped_;
    return false;
  }
  const ChunkReaders::Read& read = readers_.last(worker);
  waiting_.add({worker, step, push, *update, std::move(values), read.version, read.at, weight});
  return true;
}

std::optional<PushedGradient> ChunkState::next_gradient(double now) {
  if (complete_) return {};
  const bool merges = policy_.grace_s().has_value();
  if (all_workers() && !merges) {
    while (turn_ < world_) {
      std::optional<PushedGradient> gradient = waiting_.take(turn_, version_);
      if (!gradient && clocks_.is_awaited(turn_, version_)) return {};
      if (gradient) gradient->first = taken_++ == 0;
      turn_ += chunk_.group;
      complete_ = taken_ > 0 && turn_ >= world_;
      if (gradient) return gradient;
    }
    return {};
  }
  if (merges && chosen_.empty()) {
    if (decides_merges()) decide_merge(now);
    choose_merged();
  } else if (chosen_.empty()) {
    choose_first();
  }
  if (chosen_.empty()) return {};
  PushedGradient gradient = std::move(chosen_.front());
  gradient.first = taken_++ == 0;
  weight_ += gradient.weight;
  chosen_.erase(chosen_.begin());
  complete_ = chosen_.empty();
  return gradient;
}

/// A merge takes all that has come: at once if every worker that is left has pushed, else a while
/// after a quorum of them have.
void ChunkState::decide_merge(double now) {
  if (waiting_.empty() || merges_.count() > version_) return;
  bool all = true;
  std::vector<bool> workers(static_cast<std::size_t>(world_));
  for (int worker = 0; worker < world_; ++worker) {
    const bool has_come = waiting_.has(worker);
    workers[static_cast<std::size_t>(worker)] = has_come;
    all = all &&
          (has_come || !clocks_.is_there(worker) || resting_[static_cast<std::size_t>(worker)]);
  }
  if (!all) {
    if (static_cast<int>(waiting_.size()) < wanted()) return;
    if (!due_) due_ = now + *policy_.grace_s();
    if (now < *due_) return;
  }
  due_.reset();
  merges_.decide(std::move(workers));
}

/// Chooses the pushes of the merge under way once all have come but those of workers that are gone.
/// If none is left, the update is empty.
void ChunkState::choose_merged() {
  if (merges_.count() <= version_) return;
  const auto is_taken = [&](int worker) { return merges_.takes(version_, worker); };
  for (int worker = 0; worker < world_; ++worker)
    if (is_taken(worker) && clocks_.is_there(worker) && !waiting_.has(worker)) return;
  chosen_ = waiting_.take_all([&](const PushedGradient& one) { return is_taken(one.worker); });
  std::ranges::sort(chosen_, {}, &PushedGradient::worker);
  complete_ = chosen_.empty();
  if (complete_) return;
  for (const PushedGradient& one : chosen_) note({Event::taken, one.worker});
  note({Event::merged});
}

/// If enough gradients of the update have come, chooses the first ones and drops the others. A
/// worker that is gone may have pushed its gradients of other ranges but not of this one. Then some
/// workers have gone on to a later update, and the others would wait for ever for this one. So if
/// no worker can still push, fewer gradients, or none, make the update.
void ChunkState::choose_first() {
  const auto needed = static_cast<std::size_t>(wanted());
  const std::size_t come = waiting_.count(version_);
  if (come < needed && (waiting_.empty() || clocks_.can_still_push(version_))) return;
  complete_ = come == 0;
  chosen_ = waiting_.take_all([&](const PushedGradient& one) { return one.update == version_; });
  if (come > needed) {
    dropped_ += static_cast<std::int64_t>(come - needed);
    chosen_.resize(needed);
  }
  std::ranges::sort(chosen_, {}, &PushedGradient::worker);
}

void ChunkState::updated() {
  ++version_;
  turn_ = chunk_.member;
  taken_ = 0;
  weight_ = 0;
  complete_ = false;
}

std::vector<ChunkReader> ChunkState::take_readers(double now) {
  const bool merges = policy_.grace_s().has_value();
  const auto may = [&](const ChunkReader& reader) {
    return policy_.may_read(reader.number, version_) &&
           !(merges && reader.trains && waiting_.has(reader.worker));
  };
  std::vector<ChunkReader> served = readers_.take(may, {version_, now});
  for (const ChunkReader& reader : served)
    if (reader.values) note({Event::read, reader.worker});
  return served;
}

void ChunkState::restored(std::int64_t version, std::int64_t number, double now) {
  version_ = version;
  clocks_.restored(number);
  readers_.restored(std::vector<std::int64_t>(static_cast<std::size_t>(world_), version), now);
  history_.cut = history_bytes_ > 0;
}

nlohmann::ordered_json ChunkState::course() const {
  if (!waiting_.empty() || !readers().empty() || taken_ > 0)
    throw Error("{} gradients and {} workers wait at the {} elements from {} on",
                waiting_.size() + static_cast<std::size_t>(taken_), readers().size(), chunk_.count,
                chunk_.begin);
  return {{"begin", chunk_.begin},        {"version", version_}, {"next", clocks_.next()},
          {"reads", readers_.versions()}, {"dropped", dropped_}, {"events", history_.events},
          {"cut", history_.cut}};
}

void ChunkState::restore_course(const nlohmann::json& course, double now) {
  const auto next = course.at("next").get<std::vector<std::int64_t>>();
  const auto reads = course.at("reads").get<std::vector<std::int64_t>>();
  const auto workers = static_cast<std::size_t>(world_);
  if (course.at("begin") != chunk_.begin || next.size() != workers || reads.size() != workers)
    throw Error("there is another chunk in place of the {} elements from {} on, or other workers",
                chunk_.count, chunk_.begin);
  version_ = course.at("version").get<std::int64_t>();
  clocks_.restored(next);
  readers_.restored(reads, now);
  dropped_ = course.at("dropped").get<std::int64_t>();
  history_.events = course.at("events").get<std::string>();
  history_.cut = course.at("cut").get<bool>();
}

std::int64_t ChunkState::first_push(int worker) const {
  const std::int64_t next = clocks_.next(worker);
  return policy_.shares_steps() ? next : std::max(next, version_ + (taken_ > 0 ? 1 : 0));
}

void ChunkState::come(int worker, std::int64_t first) {
  if (!chunk_.is_of(worker) || (clocks_.is_there(worker) && clocks_.next(worker) == first)) return;
  clocks_.come(worker, first);
  note({Event::came, worker, first});
}

bool ChunkState::skip(int worker, std::int64_t number) {
  if (!clocks_.is_there(worker) || clocks_.next(worker) > version_ || number <= version_)
    return false;
  if (clocks_.are_all_there()) return false;
  clocks_.skip(worker, number);
  note({Event::skips, worker, number});
  return true;
}

void ChunkState::leave(int worker) {
  if (!clocks_.is_there(worker)) return;
  clocks_.leave(worker);
  readers_.leave(worker);
  note({Event::gone, worker});
}

void ChunkState::note(const RangeEvent& event) {
  if (history_bytes_ > 0) history_.add(event, history_bytes_);
}

}  // namespace ringside::ps
