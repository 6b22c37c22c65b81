#include <algorithm>
#include <charconv>
#include <limits>
#include <tuple>

#include "core/base/error.h"
#include "core/base/untrusted_json.h"
#include "core/base/utf8.h"
#include "core/checkpoint/checkpoint_format.h"

namespace ringside {
namespace {

constexpr std::string_view step_prefix = "step-", rank_prefix = "rank-",
                           rank_ending = ".safetensors", server_ending = "-server.safetensors";
constexpr std::size_t longest_name = 100;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool may_be_a_name(std::string_view name) {
  const auto allowed = [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' || c == '/';
  };
  return !name.empty() && name.size() <= longest_name && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), allowed);
}

/// The number between `prefix` and `ending`, both of which `name` has.
template <class Number>
std::optional<Number> number_in(std::string_view name, std::string_view prefix,
                                std::string_view ending) {
  if (!name.starts_with(prefix) || !name.ends_with(ending) ||
      name.size() < prefix.size() + ending.size())
    return {};
  name.remove_prefix(prefix.size());
  name.remove_suffix(ending.size());
  Number number = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data(), last, number);
  if (error != std::errc() || end != last || number < 0) return {};
  return number;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("{}{:010}", step_prefix, step);
}

std::string rank_file_name(int rank, RankPart part) {
  return fmt::format("{}{:05}{}", rank_prefix, rank,
                     part == RankPart::server ? server_ending : rank_ending);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  const auto step = number_in<std::int64_t>(name, step_prefix, "");
  return step && checkpoint_name(*step) == name ? step : std::nullopt;
}

bool is_rank_file_name(std::string_view name) {
  const bool serves = name.ends_with(server_ending);
  const auto rank = number_in<int>(name, rank_prefix, serves ? server_ending : rank_ending);
  return rank && rank_file_name(*rank, serves ? RankPart::server : RankPart::worker) == name;
}

std::string tensor_name(const SavedRange& range) {
  const std::string replica = range.key.replica < 0 ? "" : fmt::format("{}/", range.key.replica);
  return fmt::format("{}{}[{}:{}]", replica, range.key.name, range.begin,
                     range.begin + range.count);
}

std::string text_of(const StateKey& key) {
  return key.replica < 0 ? key.name : fmt::format("{} of replica {}", key.name, key.replica);
}

void check_range(const SavedRange& range) {
  const StateKey& key = range.key;
  if (!may_be_a_name(key.name))
    throw Error(
        "state cannot be named {}: a name has at most {} letters, digits and characters of "
        "\"_.-/\", and begins with a letter",
        text_of(nlohmann::json(utf8_text(key.name))), longest_name);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (key.replica < -1 || range.begin < 0 || range.count < 1 || range.count > most - range.begin)
    throw Error("{}: replica {}, begin {} and count {} are no range of values", key.name,
                key.replica, range.begin, range.count);
}

void check_no_overlaps(const std::vector<CheckpointFile>& files) {
  struct Placed {
    const SavedRange* range;
    const std::string* file;
  };
  std::vector<Placed> all;
  for (const CheckpointFile& file : files)
    for (const SavedRange& range : file.ranges) all.push_back({&range, &file.name});
  std::sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.range->key, a.range->begin) < std::tie(b.range->key, b.range->begin);
  });
  for (std::size_t i = 1; i < all.size(); ++i) {
    const SavedRange &before = *all[i - 1].range, &range = *all[i].range;
    if (before.key == range.key && range.begin < before.begin + before.count)
      throw Error("{} of {} and {} of {} overlap", tensor_name(before), *all[i - 1].file,
                  tensor_name(range), *all[i].file);
  }
}

}  // namespace ringside
