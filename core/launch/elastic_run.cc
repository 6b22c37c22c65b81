#include "core/launch/elastic_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/comm/store.h"
#include "core/plan/worlds.h"

namespace ringside {
namespace {

using nlohmann::json;
using Kind = MembershipAction::Kind;

Membership::Rules rules_of(const RunPlan& plan) {
  Membership::Rules rules{.worlds = {},
                          .servers = static_cast<int>(plan.ranks.size()) - plan.world,
                          .replacements = plan.faults.restarts};
  for (const RunPlan& one : plan.worlds) rules.worlds.push_back(one.world);
  return rules;
}

std::string prefix_of(std::int64_t generation) { return fmt::format("generation-{}/", generation); }

}  // namespace

std::string elastic::key_in(std::int64_t generation, const std::string& key) {
  if (key == stop_key || key.starts_with(kept_key)) return key;
  return prefix_of(generation) + key;
}

ElasticRun::ElasticRun(const RunPlan& plan, Processes processes)
    : plan_(plan), processes_(std::move(processes)), members_(rules_of(plan)) {
  for (const RankPlan& rank : plan.ranks) processes_there_.insert(rank.rank);
  const std::int64_t from = plan.resume.empty() ? 0 : Checkpoint(plan.resume).manifest().step;
  periods_.push_back({.from = from, .world = plan.world, .cause = {}});
}

bool ElasticRun::hear(int seat, const json& message, double now) {
  if (message.contains(elastic::ready)) {
    if (!members_.border_wanted()) cause_ = "a worker has come";
    members_.ready(seat);
  } else if (const auto left = message.find(elastic::left); left == message.end()) {
    return false;
  } else if (left->get<std::int64_t>() == members_.generation()) {
    members_.left(seat);
  }
  act(now);
  return true;
}

void ElasticRun::note_set(const std::string& key, const std::string& value) {
  const std::string prefix = prefix_of(members_.generation());
  if (!key.starts_with(prefix)) return;
  const std::string own = key.substr(prefix.size());
  if (const std::string said = "checkpoint/server "; own.starts_with(said))
    keeps_[std::stoi(own.substr(said.size()))] = !value.empty();
  const std::string part = part_of_key(own);
  if (part.empty()) return;
  std::vector<HostCopy> copies;
  try {
    for (const shm::Address& file : parse_copies(value)) copies.emplace_back(file);
  } catch (const Error&) {
    return;  // the process has ended already, and its copies with it
  }
  copies_[part] = std::move(copies);
}

void ElasticRun::ended(int seat, const std::string& why, double now) {
  processes_there_.erase(seat);
  if (!why.empty()) cause_ = why;
  members_.ended(seat, why);
  act(now);
}

void ElasticRun::finished(int seat, double now) {
  members_.finished(seat);
  act(now);
}

void ElasticRun::note_progress(int rank, std::int64_t steps, double now) {
  done_[rank] = std::max(done_[rank], steps);
  if (on_the_way_.erase(rank) > 0 && on_the_way_.empty()) {
    periods_.back().down_s = now - recovers_since_;
  }
}

bool ElasticRun::remove(int worker, const std::string& why, double now) {
  if (worker >= members_.world() || !members_.remove(members_.seat_of(worker))) return false;
  struck_at_ = now;
  cause_ = fmt::format("worker {} {}", worker, why);
  act(now);
  return true;
}

void ElasticRun::add(double now) {
  members_.add();
  act(now);
}

void ElasticRun::attend(double now) {
  if (now - changed_at_ < plan_.train.timeout_s) return;
  for (const int seat : members_.awaited()) processes_.kill(seat);
}

void ElasticRun::begin_change(const std::string& why, double now) {
  changed_at_ = struck_at_ >= 0 ? struck_at_ : now;
  struck_at_ = -1;
  cause_ = why;
  processes_.set(elastic::key_in(members_.generation(), change_key), "");
}

void ElasticRun::act(double now) {
  const bool changes = members_.border_wanted();
  if (changes && asked_ != members_.generation()) {
    asked_ = members_.generation();
    begin_change(cause_, now);
  }
  while (const std::optional<MembershipAction> action = members_.next()) {
    switch (action->kind) {
      case Kind::start: {
        RunPlan waiting = at_world(plan_, plan_.most_world);
        waiting.generation = -1;
        waiting.host_copies.clear();
        processes_.start(action->seat, waiting);
        processes_there_.insert(action->seat);
        break;
      }
      case Kind::interrupt:
        processes_.send(action->seat, {{elastic::interrupted, members_.generation()}});
        break;
      case Kind::form:
        form(*action, now);
        break;
      case Kind::dismiss:
        processes_there_.erase(action->seat);
        processes_.send(action->seat, {{elastic::dismissed, true}});
        break;
      case Kind::finish:
        over_ = true;
        for (const int seat : processes_there_) processes_.send(seat, {{elastic::dismissed, true}});
        break;
      case Kind::fail:
        failure_ = action->why;
        break;
    }
  }
}

std::vector<std::string> ElasticRun::parts() const {
  std::vector<std::string> out;
  for (int worker = 0; worker < plan_.world; ++worker)
    out.push_back(fmt::format("worker {}", worker));
  for (int server = 0; server < plan_.servers; ++server) {
    const auto said = keeps_.find(server);
    if (said == keeps_.end()) return {};
    if (said->second) out.push_back(fmt::format("server {}", server));
  }
  return out;
}

std::int64_t ElasticRun::newest_step(std::vector<shm::Address>& files) const {
  std::map<std::int64_t, std::vector<shm::Address>> by_step;
  const std::vector<std::string> all = parts();
  for (const std::string& part : all) {
    const auto copies = copies_.find(part);
    if (copies == copies_.end()) return -1;
    for (const HostCopy& copy : copies->second)
      if (const auto done = copy.done()) by_step[*done].push_back(copy.address());
  }
  for (auto step = by_step.rbegin(); step != by_step.rend(); ++step)
    if (step->second.size() == all.size()) {
      files = step->second;
      return step->first;
    }
  return -1;
}

void ElasticRun::form(const MembershipAction& action, double now) {
  if (!on_the_way_.empty()) periods_.back().down_s = now - recovers_since_;
  recovers_since_ = changed_at_;
  std::vector<shm::Address> files;
  std::int64_t from = newest_step(files);
  std::int64_t most_done = 0;
  for (const auto& [rank, steps] : done_) most_done = std::max(most_done, steps);
  RunPlan next = at_world(plan_, action.world);
  next.generation = members_.generation();
  if (from >= 0) {
    base_ = std::exchange(copies_, {});
    next.host_copies.clear();
    for (const shm::Address& file : files)
      next.host_copies.push_back(
          {file.process, file.file, static_cast<std::int64_t>(file.identity)});
  } else {
    from = periods_.back().from;
    copies_.clear();
    const auto on_disk = checkpoints_in(next.checkpoint.path);
    if (!next.checkpoint.path.empty() && !on_disk.empty() && on_disk.rbegin()->first > from) {
      from = on_disk.rbegin()->first;
      next.resume = on_disk.rbegin()->second.string();
      next.host_copies.clear();
    }
  }
  keeps_.clear();
  done_.clear();
  plan_ = std::move(next);
  processes_.say(fmt::format("world {} after step {}: {}\n", action.world, from, cause_));
  periods_.push_back({.from = from,
                      .world = action.world,
                      .cause = std::exchange(cause_, {}),
                      .lost_steps = std::max<std::int64_t>(0, most_done - from),
                      .left_s = now - changed_at_});
  processes_.begin_world(action.world, from);
  on_the_way_.clear();
  for (int worker = 0; worker < action.world; ++worker) on_the_way_.insert(worker);
  for (std::size_t rank = 0; rank < action.seats.size(); ++rank)
    processes_.send(action.seats[rank], {{"rank", rank}, {"plan", to_json(plan_)}});
}

}  // namespace ringside
