#include "peer/comm/hosts/copy_collectives.h"

#include <algorithm>
#include <cstring>

#include "peer/comm/part.h"

namespace ringside::peer {
namespace {

/// A message of one segment, with its peer and its place in the array.
struct Moving {
  int peer = 0;
  std::size_t offset = 0, bytes = 0;
  TransferPtr transfer{};
};

void copy_bytes(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (from != to && bytes > 0) std::memcpy(to, from, bytes);
}

std::int64_t counted(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

/// Calls do(begin, bytes) for every segment of [begin, begin + bytes).
void for_segments(std::size_t begin, std::size_t bytes, const auto& act) {
  for (std::size_t done = 0; done < bytes; done += segment_bytes)
    act(begin + done, std::min(segment_bytes, bytes - done));
}

}  // namespace

void gather_parts(HostGroup& host_group, const HostArrays& arrays, std::size_t bytes) {
  const Places& places = host_group.places();
  const auto own = static_cast<std::size_t>(places.place());
  const auto part = [&](int rank) { return static_cast<std::size_t>(rank) * bytes; };
  const auto local = static_cast<std::int64_t>(places.here().size()) - 1;
  std::vector<Moving> arriving, leaving;
  if (places.has_column())
    for (int step = 1; step < places.hosts(); ++step) {
      const int host = (places.host() + places.hosts() - step) % places.hosts();
      for (const int rank : places.ranks(host))
        if (places.column_of(rank) == places.place())
          for_segments(part(rank), bytes, [&](std::size_t begin, std::size_t size) {
            arriving.push_back({places.counterpart_on(host), begin, size,
                                host_group.receive(places.counterpart_on(host), Wire::Lane::steps,
                                                   {arrays.out[own] + begin, size})});
          });
    }
  if (places.has_column())
    for (int step = 1; step < places.hosts(); ++step) {
      const int host = (places.host() + step) % places.hosts();
      for (std::size_t i = own; i < places.here().size();
           i += static_cast<std::size_t>(places.columns()))
        for_segments(0, bytes, [&](std::size_t begin, std::size_t size) {
          leaving.push_back({places.counterpart_on(host), begin, size,
                             host_group.send(places.counterpart_on(host), Wire::Lane::steps,
                                             {arrays.in[i] + begin, size})});
        });
    }
  for (std::size_t i = 0; i < places.here().size(); ++i)
    copy_bytes(arrays.in[i], arrays.out[own] + part(places.here()[i]), bytes);
  std::int64_t shared = 0;
  for (Moving& one : arriving) {
    host_group.wait(one.transfer, one.peer);
    for (std::size_t i = 0; i < arrays.out.size(); ++i)
      copy_bytes(arrays.out[own] + one.offset, arrays.out[i] + one.offset, one.bytes);
    shared += counted(one.bytes);
  }
  for (Moving& one : leaving) host_group.wait(one.transfer, one.peer);
  // This rank's part goes to all ranks of this host, and theirs come here; so does what other hosts
  // have sent.
  const std::int64_t from_hosts = counted(bytes) * (places.size() - local - 1);
  host_group.count(local * (counted(bytes) + shared), local * counted(bytes) + from_hosts - shared);
}

void copy_from_root(HostGroup& host_group, const HostArrays& arrays, std::size_t bytes, int root) {
  const Places& places = host_group.places();
  const int hosts = places.hosts();
  const int distance = (places.host() - places.host_of(root) + hosts) % hosts;
  const auto own = static_cast<std::size_t>(places.place());
  const auto local = static_cast<std::int64_t>(places.here().size()) - 1;
  const Part column =
      places.has_column() ? part_of(bytes, places.place(), places.columns()) : Part{0, 0};
  // On the root's host the values lie in its array, on others they arrive in this rank's.
  std::byte* const source =
      distance == 0 ? arrays.in[static_cast<std::size_t>(places.place_of(root))] : arrays.in[own];
  const int from = distance > 0 && places.has_column()
                       ? places.counterpart_on((places.host() + hosts - 1) % hosts)
                       : -1;
  const int to = distance + 1 < hosts && places.has_column()
                     ? places.counterpart_on((places.host() + 1) % hosts)
                     : -1;
  std::vector<Moving> pieces, leaving;
  for_segments(column.begin, column.count, [&](std::size_t begin, std::size_t size) {
    pieces.push_back({from, begin, size, {}});
    if (from >= 0)
      pieces.back().transfer = host_group.receive(from, Wire::Lane::steps, {source + begin, size});
  });
  for (Moving& one : pieces) {
    host_group.wait(one.transfer, from);
    if (to >= 0)
      leaving.push_back({to, one.offset, one.bytes,
                         host_group.send(to, Wire::Lane::steps, {source + one.offset, one.bytes})});
    if (from >= 0)
      for (std::byte* array : arrays.in)
        copy_bytes(source + one.offset, array + one.offset, one.bytes);
  }
  if (distance == 0) {
    copy_bytes(source, arrays.in[own], bytes);
    if (places.rank() == root)
      host_group.count(local * counted(bytes), 0);
    else
      host_group.count(0, counted(bytes));
  } else {
    host_group.count(local * counted(column.count), local == 0 ? 0 : counted(bytes - column.count));
  }
  for (Moving& one : leaving) host_group.wait(one.transfer, to);
}

void exchange_parts(HostGroup& host_group, const HostArrays& arrays, std::size_t bytes) {
  const Places& places = host_group.places();
  const auto own = static_cast<std::size_t>(places.place());
  const auto part = [&](int rank) { return static_cast<std::size_t>(rank) * bytes; };
  std::vector<Moving> moving;
  for (int step = 1; step < places.size(); ++step) {
    const int to = (places.rank() + step) % places.size();
    const int from = (places.rank() + places.size() - step) % places.size();
    if (!places.shares_host(from))
      moving.push_back(
          {from, 0, 0,
           host_group.receive(from, Wire::Lane::steps, {arrays.out[own] + part(from), bytes})});
    if (!places.shares_host(to))
      moving.push_back(
          {to, 0, 0, host_group.send(to, Wire::Lane::steps, {arrays.in[own] + part(to), bytes})});
  }
  for (std::size_t i = 0; i < places.here().size(); ++i)
    copy_bytes(arrays.in[i] + part(places.rank()), arrays.out[own] + part(places.here()[i]), bytes);
  const auto local = static_cast<std::int64_t>(places.here().size()) - 1;
  host_group.count(local * counted(bytes), local * counted(bytes));
  for (Moving& one : moving) host_group.wait(one.transfer, one.peer);
}

}  // namespace ringside::peer
