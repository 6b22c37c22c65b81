#include "peer/comm/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "peer/comm/part.h"

namespace ringside::peer {

bool agree(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.bytes == b.bytes && a.root == b.root;
}

Traffic traffic_of(const Collective& call, int rank, int size, std::size_t element) {
  const auto bytes = static_cast<std::int64_t>(call.bytes);
  const std::int64_t others = size - 1;
  std::int64_t both = 0;
  switch (call.kind) {
    case Collective::Kind::all_reduce: {
      // The rank gets its part of every other rank's array, and sends every other rank the sum. It
      // also sends the other ranks their parts of its own array, and gets their sums.
      const std::size_t count = part_of(call.bytes / element, rank, size).count;
      const auto part = static_cast<std::int64_t>(count * element);
      both = bytes - part + part * others;
      break;
    }
    case Collective::Kind::reduce_scatter:
    case Collective::Kind::all_gather:
    case Collective::Kind::all_to_all:
      both = bytes / size * others;
      break;
    case Collective::Kind::broadcast:
      return call.root == rank ? Traffic{bytes * others, 0} : Traffic{0, bytes};
    case Collective::Kind::barrier:
    case Collective::Kind::split:
    case Collective::Kind::expose:
    case Collective::Kind::share:
      break;
  }
  return {both, both};
}

Group group_of_colour(const std::string& parent, std::uint64_t number,
                      const std::vector<Collective>& calls, int colour, int rank) {
  std::vector<std::pair<int, int>> members;  // (key, rank)
  for (std::size_t r = 0; r < calls.size(); ++r)
    if (calls[r].colour == colour) members.emplace_back(calls[r].key, static_cast<int>(r));
  std::sort(members.begin(), members.end());
  const auto here = std::find_if(members.begin(), members.end(),
                                 [&](const auto& member) { return member.second == rank; });
  return {fmt::format("{}/{}.{}", parent, number, colour), static_cast<int>(here - members.begin()),
          static_cast<int>(members.size())};
}

std::string describe(const Collective& call) {
  // Another process may have written the call.
  if (static_cast<std::size_t>(call.kind) >= std::size(call_names)) return "unknown operation";
  std::string out(name_of(call.kind));
  if (call.kind == Collective::Kind::barrier || call.kind == Collective::Kind::split ||
      call.kind == Collective::Kind::expose)
    return out;
  out += fmt::format(" of {} bytes", call.bytes);
  if (call.kind == Collective::Kind::broadcast) out += fmt::format(" from rank {}", call.root);
  return out;
}

std::string describe(std::uint64_t number, const Collective& call) {
  return fmt::format("operation {} ({})", number, describe(call));
}

std::string list_ranks(int size, const std::function<bool(int)>& which) {
  std::string list;
  int count = 0;
  for (int r = 0; r < size; ++r)
    if (which(r)) list += (count++ > 0 ? ", " : "") + std::to_string(r);
  return count == 0 ? "" : fmt::format("rank{} {} of {}", count > 1 ? "s" : "", list, size);
}

std::string did_not_join(const std::string& group, const std::string& who, double timeout_s) {
  return fmt::format("{}: {} did not join the group within {} s", group, who, timeout_s);
}

std::string ended_before(const std::string& group, const std::string& who, std::uint64_t number,
                         const Collective& call) {
  return fmt::format("{}: {} ended before {}", group, who, describe(number, call));
}

std::string did_not_come(const std::string& group, const std::string& who, std::uint64_t number,
                         const Collective& call, double timeout_s) {
  return fmt::format("{}: {} did not begin {} within {} s", group, who, describe(number, call),
                     timeout_s);
}

std::string ended_during(const std::string& group, const std::string& who, std::uint64_t number,
                         const Collective& call) {
  return fmt::format("{}: {} ended during {}", group, who, describe(number, call));
}

std::string did_not_end(const std::string& group, const std::string& who, std::uint64_t number,
                        const Collective& call, double timeout_s) {
  return fmt::format("{}: {} did not end {} within {} s", group, who, describe(number, call),
                     timeout_s);
}

std::string did_not_go_on(const std::string& group, const std::string& who, std::uint64_t number,
                          const Collective& call, double timeout_s) {
  return fmt::format("{}: {} did not go on with {} within {} s", group, who, describe(number, call),
                     timeout_s);
}

std::string disagreement(const std::string& group, std::uint64_t number, int rank,
                         const Collective& call, int other_rank, const Collective& other) {
  return fmt::format(
      "{}: operation {} is {} on rank {} and {} on rank {}; all ranks must call the same "
      "operations in the same order",
      group, number, describe(call), rank, describe(other), other_rank);
}

std::string missed_message(const std::string& group, int size, const MessageName& message,
                           std::uint64_t bytes, int peer, bool gone, double timeout_s) {
  return fmt::format("{}: rank {} of {} {} message {} of {} bytes from rank {} to rank {}{}", group,
                     peer, size, gone ? "ended before" : "did not begin", message.number, bytes,
                     message.from, message.to, gone ? "" : fmt::format(" within {} s", timeout_s));
}

std::string unequal_message(const std::string& group, const MessageName& message,
                            std::uint64_t sent, std::uint64_t received) {
  return fmt::format(
      "{}: message {} from rank {} to rank {} is sent with {} bytes and received with {}", group,
      message.number, message.from, message.to, sent, received);
}

}  // namespace ringside::peer
