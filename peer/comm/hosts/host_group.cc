#include "peer/comm/hosts/host_group.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "peer/comm/gloo/wire.h"
#include "peer/comm/mpi/wire.h"

namespace ringside::peer {
namespace {

/// Ranks that wait for their own host at the end of a collective wait this much longer than ranks
/// that wait for another host, because the latter know which rank is late.
constexpr double patience_s = 3;
/// The time for which a rank whose connection broke waits for the text of the rank that broke it.
constexpr double explanation_s = 1;
/// The time for which a rank that has ended waits for the others. If a connection is closed while
/// it holds unread bytes, the system also drops the bytes that the peer has not read.
constexpr double farewell_s = 5;

std::unique_ptr<Wire> make_wire(Store& store, const Group& group, const Hosts& hosts) {
  if (hosts.between == InterHostBackend::gloo)
    return make_gloo_wire(store, group, hosts.address, hosts.timeout_s);
  return make_mpi_wire(hosts.between, store, group, hosts.timeout_s);
}

Group of_this_host(const Group& group, const Places& places) {
  return {fmt::format("{}@{}", group.name, places.host()), places.place(),
          static_cast<int>(places.here().size())};
}

std::span<const std::byte> bytes_of(const auto& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}
std::span<std::byte> bytes_of(auto& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof value};
}

}  // namespace

HostGroup::HostGroup(Device& device, Store& store, const Group& group, const Hosts& hosts)
    : store_(store),
      group_(group),
      hosts_(hosts),
      places_(hosts.of_ranks, group.rank),
      control_(device, store, of_this_host(group, places_), hosts.timeout_s,
               Control::Whole{group.name, group.size, places_.here()}),
      wire_(make_wire(store, group, hosts)) {
  if (!places_.has_column()) return;
  for (const int host : {places_.host() - 1, places_.host() + 1})
    if (host >= 0 && host < places_.hosts())
      neighbours_.push_back({places_.counterpart_on(host), {}, {}, {}, {}});
  for (Neighbour& neighbour : neighbours_) listen(neighbour);
}

HostGroup::~HostGroup() {
  control_.say_gone();
  try {
    if (!control_.broken()) leave();
  } catch (const std::exception&) {  // the others are gone, so no rank waits for this one
  }
}

void HostGroup::leave() {
  for (Neighbour& neighbour : neighbours_) say(neighbour, {});
  std::vector<char> come(static_cast<std::size_t>(group_.size));
  const char gone = 1;
  std::map<int, std::pair<TransferPtr, TransferPtr>> ends;
  for (int r = 0; r < group_.size; ++r)
    if (r != group_.rank)
      ends[r] = {wire_->send(r, Wire::Lane::ends, bytes_of(gone)),
                 wire_->receive(r, Wire::Lane::ends, bytes_of(come[static_cast<std::size_t>(r)]))};
  WaitingTime waited = control_.begin_wait();
  std::mutex asked;
  for (auto& [peer, both] : ends) {
    const int rank = peer;
    const auto give_up = [&, rank] {
      const std::lock_guard lock(asked);
      return waited.seconds(control_.now()) > std::min(hosts_.timeout_s, farewell_s) ||
             control_.broken() || store_.try_get(broken_key(rank)).has_value();
    };
    if (!both.second->wait(give_up) || !both.first->wait(give_up)) return;
  }
}

void HostGroup::listen(Neighbour& neighbour) {
  neighbour.hearing = wire_->receive(neighbour.rank, Wire::Lane::heads, bytes_of(neighbour.heard));
}

void HostGroup::say(Neighbour& neighbour, const Head& head) {
  neighbour.saying.reset();
  neighbour.said = head;
  neighbour.saying = wire_->send(neighbour.rank, Wire::Lane::heads, bytes_of(neighbour.said));
}

void HostGroup::run(std::uint64_t number, const Collective& call, const shm::Address& in,
                    const shm::Address& out, std::string_view purpose,
                    const std::function<void()>& body) {
  number_ = number;
  call_ = call;
  try {
    control_.arrive(number, call, in, purpose, out);
  } catch (const Error&) {
    tell_others();
    throw;
  }
  try {
    int peer = -1;
    try {
      for (Neighbour& neighbour : neighbours_) {
        peer = neighbour.rank;
        say(neighbour, {number, call, {}});
      }
    } catch (const Error& e) {
      fail_gone({peer}, e.what(), ended_before(group_.name, who(peer), number, call));
    }
    heard_ = false;
    body();
    if (!heard_) hear_neighbours();
  } catch (const Error& e) {
    control_.break_group(fmt::format("{}: {} on rank {}: {}", group_.name, describe(number, call),
                                     group_.rank, e.what()));
    tell_others();
  }
  control_.leave(number, patience_s);
}

void HostGroup::hear_neighbours() {
  heard_ = true;
  for (Neighbour& neighbour : neighbours_) {
    wait(*neighbour.hearing, neighbour.rank, [&](bool gone) {
      return gone
                 ? ended_before(group_.name, who(neighbour.rank), number_, call_)
                 : did_not_come(group_.name, who(neighbour.rank), number_, call_, hosts_.timeout_s);
    });
    const Head heard = neighbour.heard;
    if (heard.number == 0) fail(ended_before(group_.name, who(neighbour.rank), number_, call_));
    if (!agree(heard.call, call_)) {
      const bool first = group_.rank < neighbour.rank;
      fail(disagreement(group_.name, number_, first ? group_.rank : neighbour.rank,
                        first ? call_ : heard.call, first ? neighbour.rank : group_.rank,
                        first ? heard.call : call_));
    }
    listen(neighbour);
    wait(neighbour.saying, neighbour.rank);
  }
}

TransferPtr HostGroup::send(int peer, Wire::Lane lane, std::span<const std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  sent_ += static_cast<std::int64_t>(bytes.size());
  return started(peer, [&] { return wire_->send(peer, lane, bytes); });
}

TransferPtr HostGroup::receive(int peer, Wire::Lane lane, std::span<std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  received_ += static_cast<std::int64_t>(bytes.size());
  return started(peer, [&] { return wire_->receive(peer, lane, bytes); });
}

TransferPtr HostGroup::started(int peer, const std::function<TransferPtr()>& start) {
  try {
    return start();
  } catch (const Error& e) {
    fail_gone({peer}, e.what(), ended_during(group_.name, who(peer), number_, call_));
  }
}

void HostGroup::wait(TransferPtr& transfer, int peer) {
  if (!heard_) hear_neighbours();
  if (!transfer) return;
  wait(*transfer, peer, [&](bool gone) {
    return gone ? ended_during(group_.name, who(peer), number_, call_)
                : did_not_go_on(group_.name, who(peer), number_, call_, hosts_.timeout_s);
  });
  transfer.reset();
}

void HostGroup::wait(Transfer& transfer, int peer,
                     const std::function<std::string(bool gone)>& missed) {
  wait_for(transfer, {peer}, missed);
}

void HostGroup::wait_for(Transfer& transfer, const std::vector<int>& peers,
                         const std::function<std::string(bool gone)>& missed) {
  WaitingTime waited = control_.begin_wait();
  std::atomic<bool> late{false}, told{false};
  std::mutex asked;  // another thread may ask
  const auto give_up = [&] {
    const std::lock_guard lock(asked);
    if (waited.seconds(control_.now()) > hosts_.timeout_s) late = true;
    told = told || std::any_of(peers.begin(), peers.end(), [&](int peer) {
             return store_.try_get(broken_key(peer)).has_value();
           });
    return late || told || control_.broken();
  };
  std::string cause;
  try {
    if (transfer.wait(give_up)) return;
  } catch (const Error& e) {
    cause = e.what();
  }
  if (control_.broken()) {
    tell_others();
    control_.throw_if_broken();
  }
  if (!cause.empty() || told) fail_gone(peers, cause, missed(true));
  const std::string what = missed(false);
  if (say_where_ranks_are()) fail(fmt::format("{}; {}", what, where_all_are()));
  // Another rank of this host has waited as long, and is asking where all ranks are.
  WaitingTime asking = control_.begin_wait();
  while (!control_.broken() && asking.seconds(control_.now()) < 2 * explanation_s)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  fail(what);
}

void HostGroup::sum_by_library(DType dtype, std::span<std::byte> array) {
  // The library would not notice that ranks call different operations.
  if (!heard_) hear_neighbours();
  const auto is_other = [&](int rank) { return rank != group_.rank; };
  std::vector<int> others;
  for (int rank = 0; rank < group_.size; ++rank)
    if (is_other(rank)) others.push_back(rank);
  const std::string who = list_ranks(group_.size, is_other);
  const auto missed = [&](bool gone) {
    return gone ? fmt::format("{}: {} broke in the library", group_.name, describe(number_, call_))
                : did_not_go_on(group_.name, who, number_, call_, hosts_.timeout_s);
  };
  TransferPtr sum;
  try {
    sum = wire_->all_reduce(dtype, array);
  } catch (const Error& e) {
    fail_gone(others, e.what(), missed(true));
  }
  wait_for(*sum, others, missed);
  // The bytes of a ring are assumed: libraries do not report their algorithm.
  const auto bytes = static_cast<std::int64_t>(2 * array.size() * others.size() /
                                               static_cast<std::size_t>(group_.size));
  count(bytes, bytes);
  computed_ = true;
}

void HostGroup::meet() {
  if (places_.place() != 0) return;
  const int hosts = places_.hosts(), here = places_.host();
  const std::byte sent{1};
  for (int distance = 1; distance < hosts; distance *= 2) {
    const int to = places_.ranks((here + distance) % hosts).front();
    const int from = places_.ranks((here + hosts - distance) % hosts).front();
    std::byte received{};
    TransferPtr in = started(from, [&] {
      return wire_->receive(from, Wire::Lane::steps, {&received, 1});
    });
    TransferPtr out = started(to, [&] { return wire_->send(to, Wire::Lane::steps, {&sent, 1}); });
    wait(in, from);
    wait(out, to);
  }
}

void HostGroup::count(std::int64_t sent, std::int64_t received) {
  sent_ += sent;
  received_ += received;
}

std::string HostGroup::who(int rank) const {
  return list_ranks(group_.size, [&](int r) { return r == rank; });
}

std::string HostGroup::broken_key(int rank) const {
  return fmt::format("broken/{}/{}", group_.name, rank);
}

void HostGroup::fail_gone(const std::vector<int>& peers, const std::string& cause,
                          const std::string& missed) {
  // If several ranks take part, the one that finds the cause may first ask where all ranks are.
  const double patience =
      std::min(peers.size() > 1 ? 2 * explanation_s : explanation_s, hosts_.timeout_s);
  WaitingTime asking = control_.begin_wait();
  while (asking.seconds(control_.now()) < patience) {
    for (const int peer : peers)
      if (const auto said = store_.try_get(broken_key(peer))) fail(*said);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  fail(fmt::format("{}: {}", missed, cause));
}

void HostGroup::fail(const std::string& what) {
  control_.break_group(what);
  tell_others();
  control_.throw_if_broken();
  throw Error("{}", what);  // another rank of this host is just writing why it broke the group
}

std::string HostGroup::where_key(int host) const {
  return fmt::format("where/{}@{}", group_.name, host);
}

bool HostGroup::say_where_ranks_are() {
  if (!control_.speaks_first()) return false;
  try {
    store_.set(where_key(places_.host()), control_.where());
  } catch (const Error&) {  // what broke the group is more important
  }
  return true;
}

std::string HostGroup::where_all_are() {
  const double end = seconds_now() + std::min(explanation_s, hosts_.timeout_s);
  const auto ask = [&](int host, double timeout_s) -> std::string {
    try {
      return store_.get(where_key(host), timeout_s);
    } catch (const Error&) {
      return {};
    }
  };
  // Ask for all keys before waiting for the first answer, as in call_the_roll().
  for (int host = 0; host < places_.hosts(); ++host) ask(host, 0);
  std::string said;
  std::set<int> silent;
  for (int host = 0; host < places_.hosts(); ++host) {
    const std::string answer = ask(host, std::max(0.05, end - seconds_now()));
    if (answer.empty())
      silent.insert(host);
    else
      said += (said.empty() ? "" : "; ") + answer;
  }
  if (silent.empty()) return said;
  const auto is_silent = [&](int r) { return silent.contains(places_.host_of(r)); };
  const std::string who = list_ranks(group_.size, is_silent);
  return fmt::format("{} {} nothing; {}", who, who.starts_with("ranks") ? "say" : "says", said);
}

void HostGroup::tell_others() {
  const std::lock_guard lock(telling_);
  if (std::exchange(told_, true)) return;
  std::string what = fmt::format("{}: rank {} broke the group", group_.name, group_.rank);
  try {
    control_.throw_if_broken();
  } catch (const Error& e) {
    what = e.what();
  }
  say_where_ranks_are();
  try {
    store_.set(broken_key(group_.rank), what);
  } catch (const Error&) {  // what broke the group is more important
  }
  leave_records(store_, group_.name, what, group_.rank, group_.rank + 1,
                [&](int) { return control_.records(control_.rank()).list(); });
}

}  // namespace ringside::peer
