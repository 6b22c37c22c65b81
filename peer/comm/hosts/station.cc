#include "peer/comm/hosts/station.h"

#include <algorithm>

#include "core/base/error.h"
#include "peer/comm/gloo/wire.h"
#include "peer/comm/mpi/wire.h"
#include "peer/comm/roll_call.h"

namespace ringside::peer {
namespace {

/// Ranks of a host that wait for each other at the end of a collective must not lose patience
/// before those of them that wait for another host: these know who is late.
constexpr double patience_s = 3;
/// How long a rank whose connection broke waits for the text of the rank that broke it.
constexpr double explanation_s = 1;

std::unique_ptr<Wire> make_wire(Store& store, const Group& group, const Hosts& hosts) {
  if (hosts.between == Between::gloo)
    return make_gloo_wire(store, group, hosts.address, hosts.timeout_s);
  return make_mpi_wire(hosts.between == Between::openmpi ? Mpi::openmpi : Mpi::mpich, store, group,
                       hosts.timeout_s);
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

Station::Station(Device& device, Store& store, const Group& group, const Hosts& hosts)
    : device_(device),
      store_(store),
      group_(group),
      hosts_(hosts),
      places_(hosts.of_ranks, group.rank),
      control_(device, store, of_this_host(group, places_), hosts.timeout_s,
               Control::Whole{group.name, group.size, places_.here()}),
      wire_(make_wire(store, group, hosts)) {
  if (!places_.has_column()) return;
  for (const int host : {places_.host() - 1, places_.host() + 1})
    if (host >= 0 && host < places_.hosts()) neighbours_.push_back({places_.beside(host), {}, {}, {}, {}});
  for (Neighbour& neighbour : neighbours_) listen(neighbour);
}

Station::~Station() {
  control_.say_gone();
  try {
    if (!control_.broken()) leave();
  } catch (const std::exception&) {  // the others are gone, and nobody waits for this rank
  }
}

void Station::leave() {
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
      return waited.seconds(control_.now()) > hosts_.timeout_s || control_.broken() ||
             store_.try_get(broken_key(rank)).has_value();
    };
    if (!both.second->wait(give_up) || !both.first->wait(give_up)) return;
  }
}

void Station::listen(Neighbour& neighbour) {
  neighbour.hearing =
      wire_->receive(neighbour.rank, Wire::Lane::heads, bytes_of(neighbour.heard));
}

void Station::say(Neighbour& neighbour, const Head& head) {
  neighbour.saying.reset();
  neighbour.said = head;
  neighbour.saying = wire_->send(neighbour.rank, Wire::Lane::heads, bytes_of(neighbour.said));
}

void Station::run(std::uint64_t number, const Call& call, const shm::Address& in,
                  const shm::Address& out, std::string_view purpose,
                  const std::function<void()>& body) {
  number_ = number;
  call_ = call;
  control_.arrive(number, call, in, purpose, out);
  try {
    int peer = -1;
    try {
      for (Neighbour& neighbour : neighbours_) {
        peer = neighbour.rank;
        say(neighbour, {number, call, {}});
      }
    } catch (const Error& e) {
      fail_gone(peer, e.what(), ended_before(group_.name, who(peer), number, call));
    }
    heard_ = false;
    body();
    if (!heard_) hear_neighbours();
  } catch (const Error& e) {
    control_.break_group(e.what());
    tell_others();
  }
  control_.leave(number, patience_s);
}

void Station::hear_neighbours() {
  heard_ = true;
  for (Neighbour& neighbour : neighbours_) {
    wait(*neighbour.hearing, neighbour.rank, [&](bool gone) {
      return gone ? ended_before(group_.name, who(neighbour.rank), number_, call_)
                  : did_not_come(group_.name, who(neighbour.rank), number_, call_,
                                 hosts_.timeout_s);
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

TransferPtr Station::send(int peer, Wire::Lane lane, std::span<const std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  sent_ += static_cast<std::int64_t>(bytes.size());
  return wire_->send(peer, lane, bytes);
}

TransferPtr Station::receive(int peer, Wire::Lane lane, std::span<std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  received_ += static_cast<std::int64_t>(bytes.size());
  return wire_->receive(peer, lane, bytes);
}

void Station::wait(TransferPtr& transfer, int peer) {
  if (!heard_) hear_neighbours();
  if (!transfer) return;
  wait(*transfer, peer, [&](bool gone) {
    return gone ? ended_during(group_.name, who(peer), number_, call_)
                : did_not_go_on(group_.name, who(peer), number_, call_, hosts_.timeout_s);
  });
  transfer.reset();
}

void Station::wait(Transfer& transfer, int peer,
                   const std::function<std::string(bool gone)>& missed) {
  WaitingTime waited = control_.begin_wait();
  std::atomic<bool> late{false}, told{false};
  std::mutex asked;  // another thread may ask
  const auto give_up = [&] {
    const std::lock_guard lock(asked);
    if (waited.seconds(control_.now()) > hosts_.timeout_s) late = true;
    if (store_.try_get(broken_key(peer))) told = true;
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
  if (!cause.empty() || told) fail_gone(peer, cause, missed(true));
  std::string what = missed(false);
  bool calls = false;
  {
    const std::lock_guard lock(telling_);
    calls = !std::exchange(has_records_, true);
  }
  if (calls)
    what += "; " + call_the_roll(store_, group_, control_.records(control_.rank()).list(), what,
                                 control_.now(), hosts_.timeout_s);
  fail(what);
}

void Station::meet() {
  if (places_.place() != 0) return;
  const int hosts = places_.hosts(), here = places_.host();
  const std::byte sent{1};
  for (int distance = 1; distance < hosts; distance *= 2) {
    const int to = places_.ranks((here + distance) % hosts).front();
    const int from = places_.ranks((here + hosts - distance) % hosts).front();
    std::byte received{};
    TransferPtr in = wire_->receive(from, Wire::Lane::steps, {&received, 1});
    TransferPtr out = wire_->send(to, Wire::Lane::steps, {&sent, 1});
    wait(in, from);
    wait(out, to);
  }
}

void Station::count(std::int64_t sent, std::int64_t received) {
  sent_ += sent;
  received_ += received;
}

std::string Station::who(int rank) const {
  return list_ranks(group_.size, [&](int r) { return r == rank; });
}

std::string Station::broken_key(int rank) const {
  return fmt::format("broken/{}/{}", group_.name, rank);
}

void Station::fail_gone(int peer, const std::string& cause, const std::string& missed) {
  std::string what = fmt::format("{}: {}", missed, cause);
  try {
    what = store_.get(broken_key(peer), std::min(explanation_s, hosts_.timeout_s));
  } catch (const Error&) {  // the peer has said nothing
  }
  fail(what);
}

void Station::fail(const std::string& what) {
  control_.break_group(what);
  tell_others();
  control_.throw_if_broken();
  throw Error("{}", what);  // another rank of this host is just writing why it broke the group
}

void Station::tell_others() {
  const std::lock_guard lock(telling_);
  if (std::exchange(told_, true)) return;
  std::string what = fmt::format("{}: rank {} broke the group", group_.name, group_.rank);
  try {
    control_.throw_if_broken();
  } catch (const Error& e) {
    what = e.what();
  }
  try {
    store_.set(broken_key(group_.rank), what);
  } catch (const Error&) {  // what broke the group is more important
  }
  if (std::exchange(has_records_, true)) return;
  leave_records(store_, group_.name, what, group_.rank, group_.rank + 1,
                [&](int) { return control_.records(control_.rank()).list(); });
}

}  // namespace ringside::peer
