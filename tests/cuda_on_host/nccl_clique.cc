// Ranks of NCCL on the host: the last one to come to an operation does the work of all.
#include "tests/cuda_on_host/nccl_clique.h"

#include <algorithm>
#include <tuple>

#include "tests/cuda_on_host/stream.h"

namespace cuda_on_host::nccl {
namespace {

std::size_t participants(const Clique& clique, const Link& link) {
  return link == everyone ? static_cast<std::size_t>(clique.size) : 2;
}

void arrive(Clique& clique, Part& part) {
  if (clique.error != ncclSuccess) return;
  const auto place = std::pair(part.link, part.turn);
  auto& meeting = clique.meetings[place];
  if (!meeting.empty() && !agree(*meeting[0], part)) {
    clique.error = ncclInvalidUsage;
    return;
  }
  meeting.push_back(&part);
  if (meeting.size() < participants(clique, part.link)) return;
  perform(meeting);
  for (Part* each : meeting) each->done = true;
  clique.meetings.erase(place);
}

// Runs on the stream's thread.
void run(Launch& launch) {
  Member& member = *launch.member;
  Clique& clique = *member.clique;
  std::unique_lock lock(clique.mutex);
  if (!member.aborted)
    for (Part& part : launch.parts) arrive(clique, part);
  clique.changed.notify_all();
  clique.changed.wait(lock, [&] {
    return member.aborted || std::all_of(launch.parts.begin(), launch.parts.end(),
                                         [](const Part& part) { return part.done; });
  });
  --member.unfinished;
  --clique.unfinished;
  clique.changed.notify_all();
}

void put_on_stream(const std::shared_ptr<Launch>& launch) {
  ++launch->member->unfinished;
  ++launch->member->clique->unfinished;
  enqueue(launch->stream, [launch] { run(*launch); });
}

}  // namespace

void begin(Member& member, std::function<bool()> ready, std::function<void()> end) {
  member.ready = std::move(ready);
  member.end = std::move(end);
  member.clique->changed.notify_all();
}

ncclResult_t state_of(Member& member) {
  if (member.clique->error != ncclSuccess) return member.clique->error;
  if (!member.ready) return ncclSuccess;
  if (!member.ready()) return ncclInProgress;
  member.ready = nullptr;
  std::exchange(member.end, nullptr)();
  return ncclSuccess;
}

Refusal refusal_of(const Member& member) {
  if (member.clique->error != ncclSuccess)
    return {member.clique->error, "operations of the ranks did not agree"};
  if (member.ready)
    return {ncclInvalidArgument, "communicator used before the last call on it had succeeded"};
  if (member.finalized) return {ncclInvalidUsage, "communicator used after its end"};
  return {};
}

void start(const std::shared_ptr<Launch>& launch) {
  Member& member = *launch->member;
  Clique& clique = *member.clique;
  std::set<Link> added;
  for (Part& part : launch->parts) {
    part.rank = member.rank;
    if (part.kind == Kind::send) part.link = {member.rank, part.peer};
    if (part.kind == Kind::receive) part.link = {part.peer, member.rank};
    part.turn = member.turns[{part.link, part.kind == Kind::send}]++;
    if (member.links.insert(part.link).second) added.insert(part.link);
  }
  if (added.empty()) return put_on_stream(launch);
  for (const Link& link : added) clique.callers[link].insert(member.rank);
  const auto are_connected = [&clique, added] {
    return std::all_of(added.begin(), added.end(), [&](const Link& link) {
      const bool to_self = link.first == link.second && link != everyone;
      return to_self || clique.callers[link].size() == participants(clique, link);
    });
  };
  begin(member, are_connected, [launch] { put_on_stream(launch); });
}

void leave(Member& member) {
  Clique& clique = *member.clique;
  member.aborted = true;
  member.ready = nullptr;
  member.end = nullptr;
  if (!clique.formed) clique.joined.erase(member.rank);
  for (auto& [place, meeting] : clique.meetings)
    std::erase_if(meeting, [&](const Part* part) { return part->rank == member.rank; });
  for (auto& [number, split] : clique.splits)
    if (split.children.empty()) split.wishes.erase(member.rank);
  clique.changed.notify_all();
}

bool has_split(const Clique& parent, Split& split) {
  if (static_cast<int>(split.wishes.size()) < parent.size) return false;
  if (!split.children.empty()) return true;
  for (const auto& [rank, wish] : split.wishes) {
    auto& child = split.children[wish.color];
    if (!child) child = std::make_shared<Clique>();
    child->formed = true;
    ++child->size;
  }
  return true;
}

int rank_in_split(const Split& split, int rank) {
  const auto [color, key] = split.wishes.at(rank);
  int before = 0;
  for (const auto& [other, wish] : split.wishes)
    if (wish.color == color && std::tie(wish.key, other) < std::tie(key, rank)) ++before;
  return before;
}

}  // namespace cuda_on_host::nccl
