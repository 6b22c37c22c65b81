#include "core/train/saved_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "core/base/error.h"

namespace ringside {
namespace {

using nlohmann::json;

constexpr std::size_t compared_at_once = 1 << 18;  // values

/// The name without the number of a tensor: "powersgd_q/17" is one of many.
std::string family_of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const bool numbered = slash != std::string::npos && slash + 1 < name.size() &&
                        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(slash) + 1,
                                    name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return numbered ? name.substr(0, slash) : name;
}

}  // namespace

SavedState::SavedState(const Checkpoint& from, const RunPlan& plan, int replicas)
    : from_(from),
      replicas_(replicas),
      wanted_(fmt::format("scheme {} at world {}", plan.scheme, plan.world)),
      state_(from.state()) {
  const json there = from.manifest().run, here = to_json(plan);
  same_algorithm_ = true;
  for (const char* what : {"scheme", "options", "world", "mesh", "pipeline", "defines"})
    if (there.value(what, json()) != here.value(what, json())) same_algorithm_ = false;
}

void SavedState::write(const StateRange& range) {
  const std::string family = family_of(range.name);
  taken_.insert(family);
  if (same_algorithm_) return copy({range.name, range.replica}, range);
  std::optional<StateKey> key;
  if (!range.of_options) key = source(range.name, range.replica);
  if (!key) {
    anew_.insert(family);
    if (!range.begins_as.empty()) key = source(range.begins_as, range.replica);
  }
  if (key) copy(*key, range);
}

/// The values that a range takes over; none if the checkpoint has none that it can.
std::optional<StateKey> SavedState::source(const std::string& name, std::int64_t replica) {
  std::vector<std::int64_t> replicas;
  for (const auto& [key, count] : state_)
    if (key.name == name && key.replica >= 0) replicas.push_back(key.replica);
  const bool matches = replica < 0 || static_cast<int>(replicas.size()) == replicas_;
  if (matches && state_.contains({name, replica})) return StateKey{name, replica};
  if (state_.contains({name, -1})) return StateKey{name, -1};
  if (!replicas.empty() && are_equal(name, replicas)) return StateKey{name, replicas[0]};
  if (!replicas.empty() && name == state_parameters)
    throw Error(
        "{}: its {} workers had replicas of their own, which differ, and {} cannot begin with "
        "them; go on under a scheme of as many replicas, or from a checkpoint after an averaging",
        from_.path().string(), replicas.size(), wanted_);
  return {};
}

bool SavedState::are_equal(const std::string& name, const std::vector<std::int64_t>& replicas) {
  if (const auto known = equal_.find(name); known != equal_.end()) return known->second;
  const auto count = static_cast<std::size_t>(state_.at({name, replicas[0]}));
  std::vector<float> first, other;
  bool equal = true;
  for (std::size_t at = 0; equal && at < count; at += compared_at_once) {
    first.resize(std::min(compared_at_once, count - at));
    other.resize(first.size());
    from_.read({name, replicas[0]}, static_cast<std::int64_t>(at), first);
    for (const std::int64_t replica : replicas) {
      from_.read({name, replica}, static_cast<std::int64_t>(at), other);
      equal = equal &&
              std::ranges::equal(std::as_bytes(std::span(first)), std::as_bytes(std::span(other)));
    }
  }
  return equal_[name] = equal;
}

void SavedState::copy(const StateKey& key, const StateRange& to) {
  std::vector<float> host(static_cast<std::size_t>(to.values.count()));
  from_.read(key, to.begin, host);
  to.device->write(to.values, std::as_bytes(std::span(host)));
}

std::string SavedState::note() const {
  std::set<std::string> unused;
  for (const auto& [key, count] : state_) unused.insert(family_of(key.name));
  for (const std::string& name : taken_)
    if (!anew_.contains(name)) unused.erase(name);
  std::vector<std::string> parts;
  if (!unused.empty())
    parts.push_back(
        fmt::format("{} {} not used", fmt::join(unused, ", "), unused.size() == 1 ? "is" : "are"));
  if (!anew_.empty())
    parts.push_back(
        fmt::format("{} {} anew", fmt::join(anew_, ", "), anew_.size() == 1 ? "begins" : "begin"));
  return parts.empty() ? "" : fmt::format("of its state, {}", fmt::join(parts, "; "));
}

}  // namespace ringside
