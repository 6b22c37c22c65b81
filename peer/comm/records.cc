#include "peer/comm/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

/// The most records that leave_records() leaves of all ranks together.
constexpr std::ptrdiff_t most_records_left = 64 * Records::most;

std::string text(const Record& record) {
  const std::string purpose(record.purpose);
  return fmt::format("operation {} ({}{}{})", record.number, describe(record.call),
                     purpose.empty() ? "" : ", ", purpose);
}

/// The state of a rank, as words before and after a number of seconds since `since`.
struct Place {
  std::uint64_t progress = 0;  // grows from one state to the next; 0: no collective so far
  std::string before = "in no operation so far", after{};
  double since = 0;
};

Place place_of(const std::vector<Record>& list) {
  if (list.empty()) return {};
  const auto first = std::find_if(list.begin(), list.end(),
                                  [](const Record& record) { return record.ended == 0; });
  if (first != list.end())
    return {2 * first->number, "in " + text(*first) + " for ", " s", first->begun};
  const Record& last = list.back();
  return {2 * last.number + 1, "ended " + text(last) + " ", " s ago", last.ended};
}

}  // namespace

Record record_of(std::uint64_t number, const Collective& call, std::string_view purpose,
                 double now) {
  Record record{.number = number, .call = call, .begun = now};
  purpose.copy(record.purpose, sizeof record.purpose - 1);
  return record;
}

void Records::begin(std::uint64_t number, const Collective& call, std::string_view purpose,
                    double now) {
  while (records_.size() >= kept_ && records_.front().ended != 0) records_.pop_front();
  records_.push_back(record_of(number, call, purpose, now));
}

void Records::end(std::uint64_t number, double now) {
  records_.at(number - records_.front().number).ended = now;
}

std::string where_ranks_are(int size, const RecordsOf& records,
                            const std::function<bool(int)>& gone, double now,
                            const std::vector<int>& ranks) {
  std::map<std::tuple<std::uint64_t, std::string, std::string>, std::vector<int>> places;
  std::map<int, double> since;
  for (int r = 0; r < size; ++r) {
    if (!ranks.empty() && std::count(ranks.begin(), ranks.end(), r) == 0) continue;
    const Place place = place_of(records(r));
    places[{place.progress, place.before, place.after + (gone(r) ? ", then left" : "")}].push_back(
        r);
    since[r] = place.since;
  }
  std::string out;
  for (const auto& [key, alike] : places) {
    const auto& [progress, before, after] = key;
    const std::vector<int>& here = alike;
    out += fmt::format(
        "{}{}: {}", out.empty() ? "" : "; ",
        list_ranks(size, [&here](int r) { return std::count(here.begin(), here.end(), r) > 0; }),
        before);
    double longest = 0;
    for (const int r : here) longest = std::max(longest, now - since[r]);
    if (progress > 0) out += fmt::format("{:.2f}", longest);
    out += after;
  }
  return out;
}

std::string where_rank_is(const std::vector<Record>& records, double now) {
  const Place place = place_of(records);
  return place.progress == 0
             ? place.before
             : fmt::format("{}{:.2f}{}", place.before, now - place.since, place.after);
}

void leave_records(Store& store, const std::string& group, const std::string& what, int first,
                   int end, const RecordsOf& records) {
  const auto most = std::max<std::ptrdiff_t>(4, most_records_left / (end - first));
  nlohmann::json ranks = nlohmann::json::array();
  for (int r = first; r < end; ++r) {
    nlohmann::json list = nlohmann::json::array();
    std::vector<Record> known = records(r);
    if (std::ssize(known) > most) known.erase(known.begin(), known.end() - most);
    for (const Record& record : known)
      list.push_back({{"number", record.number},
                      {"operation", describe(record.call)},
                      {"bytes", record.call.bytes},
                      {"purpose", std::string(record.purpose)},
                      {"state", record.ended == 0 ? "under way" : "ended"},
                      {"begun_s", record.begun},
                      {"ended_s", record.ended}});
    ranks.push_back({{"rank", r}, {"collectives", std::move(list)}});
  }
  const nlohmann::json all{{"group", group}, {"error", what}, {"ranks", std::move(ranks)}};
  try {
    store.set(fmt::format("{}collectives/{}/{}", kept_key, group, first),
              all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } catch (const Error&) {  // what broke the group is more important
  }
}

}  // namespace ringside::peer
