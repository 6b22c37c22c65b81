#include "core/launch/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/counted.h"

namespace ringside {

using Kind = MembershipAction::Kind;

Membership::Membership(Rules rules) : rules_(std::move(rules)), world_(most()) {
  for (int seat = 0; seat < most() + rules_.servers; ++seat) {
    places_[seat] = Place::member;
    members_.push_back(seat);
    in_generation_.insert(seat);
  }
}

bool Membership::is_member(int seat) const {
  const auto found = places_.find(seat);
  return found != places_.end() && found->second == Place::member;
}

std::vector<int> Membership::awaited() const {
  if (phase_ != Phase::changing) return {};
  std::vector<int> out;
  for (const int seat : in_generation_)
    if (!serves(seat) || !finished_.contains(seat)) out.push_back(seat);
  return out;
}

int Membership::rank_of(int seat) const {
  const auto found = std::ranges::find(members_, seat);
  return found == members_.end() || !is_member(seat) ? -1
                                                     : static_cast<int>(found - members_.begin());
}

int Membership::count(Place place, bool servers) const {
  return static_cast<int>(std::ranges::count_if(places_, [&](const auto& one) {
    return one.second == place && serves(one.first) == servers;
  }));
}

void Membership::ready(int seat) {
  const auto place = places_.find(seat);
  if (phase_ == Phase::over || place == places_.end() || place->second != Place::starting) return;
  place->second = Place::ready;
  if (phase_ == Phase::training) {
    const int workers = count(Place::member, false) + count(Place::ready, false);
    const auto larger = std::ranges::find_if(
        rules_.worlds, [&](int world) { return world > world_ && world <= workers; });
    if (larger != rules_.worlds.end()) change();
  }
  form_if_possible();
}

void Membership::ended(int seat, const std::string& why) {
  if (phase_ == Phase::over || !places_.contains(seat)) return;
  const bool was_member = is_member(seat), was_dismissed = places_[seat] == Place::dismissed;
  places_.erase(seat);
  if (was_dismissed) {
    if (awaiting_seats_ > 0) --awaiting_seats_, start(seat);
    return;
  }
  in_generation_.erase(seat);
  finished_.erase(seat);
  const bool expected = leaving_.erase(seat) > 0;
  last_end_ = why;
  if (!expected) replace(seat);
  if (phase_ == Phase::over) return;
  if (was_member) {
    change();
    interrupt_all();
  }
  form_if_possible();
}

void Membership::left(int seat) {
  if (phase_ == Phase::over || !is_member(seat)) return;
  in_generation_.erase(seat);
  finished_.erase(seat);
  form_if_possible();
}

void Membership::finished(int seat) {
  if (phase_ == Phase::over || !is_member(seat)) return;
  finished_.insert(seat);
  finish_if_done();
  form_if_possible();
}

bool Membership::remove(int seat) {
  if (phase_ == Phase::over || !is_member(seat) || serves(seat)) return false;
  if (leaving_.contains(seat)) return true;
  const int left =
      count(Place::member, false) + count(Place::ready, false) - static_cast<int>(leaving_.size());
  if (left <= rules_.worlds.front()) return false;
  leaving_.insert(seat);
  change();
  return true;
}

void Membership::add() {
  if (phase_ == Phase::over) return;
  for (int seat = 0; seat < most(); ++seat)
    if (!places_.contains(seat)) return start(seat);
  const auto dismissed = std::ranges::count_if(
      places_, [](const auto& one) { return one.second == Place::dismissed; });
  // Those that leave will be dismissed.
  awaiting_seats_ =
      std::min(awaiting_seats_ + 1, static_cast<int>(dismissed + std::ssize(leaving_)));
}

std::optional<MembershipAction> Membership::next() {
  if (actions_.empty()) return {};
  MembershipAction action = std::move(actions_.front());
  actions_.pop_front();
  return action;
}

void Membership::change() {
  if (phase_ == Phase::training) phase_ = Phase::changing;
}

void Membership::interrupt_all() {
  if (std::exchange(interrupted_, true)) return;
  for (const int seat : in_generation_) actions_.push_back({.kind = Kind::interrupt, .seat = seat});
}

void Membership::replace(int seat) {
  if (rules_.replacements > 0) {
    --rules_.replacements;
    return start(seat);
  }
  if (serves(seat)) fail(last_end_);
}

void Membership::start(int seat) {
  places_[seat] = Place::starting;
  actions_.push_back({.kind = Kind::start, .seat = seat});
}

void Membership::form_if_possible() {
  if (phase_ != Phase::changing || !awaited().empty()) return;
  if (count(Place::member, true) + count(Place::ready, true) < rules_.servers) return;
  // Others may have ended meanwhile.
  if (count(Place::member, false) + count(Place::ready, false) <
      rules_.worlds.front() + static_cast<int>(leaving_.size()))
    leaving_.clear();
  std::vector<int> workers, servers;
  // Those that were members come first, in the order of their ranks.
  for (const bool members : {true, false})
    for (const auto& [seat, place] : places_)
      if (place == (members ? Place::member : Place::ready) && !leaving_.contains(seat))
        (serves(seat) ? servers : workers).push_back(seat);
  std::ranges::sort(servers);
  int world = 0;
  for (const int possible : rules_.worlds)
    if (possible <= static_cast<int>(workers.size())) world = possible;
  if (world == 0) {
    if (count(Place::starting, false) == 0)
      fail(fmt::format("{} {} left, and the smallest world is {}{}",
                       counted(static_cast<std::int64_t>(workers.size()), "worker"),
                       workers.size() == 1 ? "is" : "are", rules_.worlds.front(),
                       last_end_.empty() ? "" : ": " + last_end_));
    return;
  }
  for (const int seat : std::exchange(leaving_, {})) {
    places_[seat] = Place::dismissed;
    actions_.push_back({.kind = Kind::dismiss, .seat = seat});
  }
  for (std::size_t w = 0; w < workers.size(); ++w)
    places_[workers[w]] = static_cast<int>(w) < world ? Place::member : Place::ready;
  for (const int seat : servers) places_[seat] = Place::member;
  members_.assign(workers.begin(), workers.begin() + world);
  members_.insert(members_.end(), servers.begin(), servers.end());
  in_generation_ = {members_.begin(), members_.end()};
  finished_.clear();
  world_ = world;
  ++generation_;
  interrupted_ = false;
  phase_ = Phase::training;
  actions_.push_back({.kind = Kind::form, .world = world, .seats = members_});
}

void Membership::finish_if_done() {
  if (finished_.size() < members_.size()) return;
  phase_ = Phase::over;
  actions_.push_back({.kind = Kind::finish});
}

void Membership::fail(const std::string& why) {
  if (phase_ == Phase::over) return;
  phase_ = Phase::over;
  actions_.push_back({.kind = Kind::fail, .why = why});
}

}  // namespace ringside
