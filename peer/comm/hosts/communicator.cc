#include "peer/comm/hosts/communicator.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/error.h"
#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/checked_communicator.h"
#include "peer/comm/hosts/copy_collectives.h"
#include "peer/comm/hosts/exchange.h"
#include "peer/comm/hosts/messages.h"
#include "peer/comm/hosts/owner_reduce.h"
#include "peer/comm/hosts/pipelined_chain.h"
#include "peer/comm/shm/communicator.h"
#include "peer/comm/shm/messages.h"
#include "peer/comm/shm/work_queue.h"

namespace ringside::peer {
namespace {

class HostsCommunicator : public CheckedCommunicator {
 public:
  HostsCommunicator(Device& device, Store& store, const Group& group, const Hosts& hosts)
      : CheckedCommunicator(group),
        device_(device),
        store_(store),
        algorithm_(group.algorithm == Algorithm::automatic ? Algorithm::native : group.algorithm),
        host_group_(device, store, group, hosts),
        local_messages_(device, host_group_.control(), host_group_.memory()),
        messages_(device, host_group_),
        queue_(device) {}

  void barrier() override {
    host_group_.control().throw_if_broken();
    ++calls_;
    Operation op;
    op.purpose = take_name();
    queue_.run([&] { execute(op, [&] { host_group_.meet(); }); });
  }

  void complete(const std::function<WorkPtr()>& begin) override { queue_.complete(begin); }

  std::unique_ptr<Communicator> split(int colour, int key) override {
    host_group_.control().throw_if_broken();
    ++calls_;
    Operation op;
    op.call = {.kind = Collective::Kind::split, .colour = colour, .key = key};
    op.purpose = take_name();
    std::vector<Collective> calls;
    queue_.run([&] { execute(op, [&] { calls = calls_of_all(op.call); }); });
    Group group = group_of_colour(name(), calls_, calls, colour, rank());
    group.algorithm = algorithm_;
    Hosts hosts = host_group_.hosts();
    hosts.of_ranks.clear();
    std::vector<std::pair<int, int>> members;
    for (int r = 0; r < size(); ++r)
      if (const Collective& call = calls[static_cast<std::size_t>(r)]; call.colour == colour)
        members.emplace_back(call.key, r);
    std::sort(members.begin(), members.end());
    for (const auto& [its_key, r] : members)
      hosts.of_ranks.push_back(host_group_.hosts().of_ranks[static_cast<std::size_t>(r)]);
    return make_hosts_communicator(device_, store_, group, hosts);
  }

  Traffic traffic() const override { return host_group_.traffic() + local_messages_.traffic(); }

 private:
  struct Operation {
    Collective call;
    Tensor in, out;
    Tensor scratch;  // for an algorithm
    shm::Address in_address, out_address;
    std::string purpose;
  };

  WorkPtr begin(const Collective& call, const Tensor& in, const Tensor& out) override {
    host_group_.control().throw_if_broken();
    const auto what = [&] { return describe(call); };
    Operation op{
        call,       in, out, scratch_for(call, in), address_of(in, what), address_of(out, what),
        take_name()};
    ++calls_;
    return queue_.submit([this, op = std::move(op)] { execute(op, [&] { compute(op); }); });
  }

  WorkPtr begin_message(const Tensor& array, int peer, bool sends) override {
    host_group_.control().throw_if_broken();
    const shm::Address address = address_of(array, [&] { return sends ? "send" : "recv"; });
    const Places& places = host_group_.places();
    if (!places.shares_host(peer)) return messages_.begin(array, peer, sends);
    const int place = places.place_of(peer);
    return sends ? local_messages_.send({array, address}, place)
                 : local_messages_.receive({array, address}, place);
  }

  std::uint64_t last_call() const override { return calls_; }

  shm::Address address_of(const Tensor& tensor, const auto& operation) {
    try {
      return host_group_.memory().publish(tensor);
    } catch (const Error& e) {
      throw Error("{}: {}: {}", name(), operation(), e.what());
    }
  }

  template <class Body>
  void execute(const Operation& op, Body body) {
    host_group_.control().throw_if_broken();
    const std::uint64_t number = ++number_;
    host_group_.run(number, op.call, op.in_address, op.out_address, op.purpose, body);
  }

  Tensor scratch_for(const Collective& call, const Tensor& in) const {
    if (!is_program_of_messages(algorithm_)) return {};
    const std::int64_t count = scratch_of(find_algorithm(algorithm_), call.kind, in.count());
    if (count == 0) return {};
    return device_.tensor({count}, MemoryKind::communication, in.dtype());
  }

  /// The calls of a split are few and small: they travel through the store.
  std::vector<Collective> calls_of_all(const Collective& own) {
    const auto key = [&](int r) { return fmt::format("split/{}/{}/{}", name(), number_, r); };
    TransferPtr none;
    host_group_.wait(none, rank());  // neighbours have come, with the same operation
    store_.set(key(rank()), fmt::format("{} {}", own.colour, own.key));
    std::vector<Collective> calls(static_cast<std::size_t>(size()), own);
    for (int r = 0; r < size(); ++r) {
      const std::string said = store_.get(key(r), host_group_.hosts().timeout_s);
      Collective& call = calls[static_cast<std::size_t>(r)];
      const char* const end = said.data() + said.size();
      const char* const space = std::from_chars(said.data(), end, call.colour).ptr;
      if (space != end) std::from_chars(space + 1, end, call.key);
    }
    return calls;
  }

  void compute(const Operation& op) {
    if (is_program_of_messages(algorithm_)) {
      const std::array<Tensor, 3> operands{op.in, op.out, op.scratch};
      HostExchange exchange(host_group_, operands);
      return run_algorithm(find_algorithm(algorithm_), op.call, exchange);
    }
    if (op.call.bytes == 0) return;
    if (algorithm_ == Algorithm::library && op.call.kind == Collective::Kind::all_reduce)
      return host_group_.sum_by_library(
          op.in.dtype(), {reinterpret_cast<std::byte*>(op.in.data<std::uint8_t>()), op.in.bytes()});
    const Mapped in(host_group_, op.in, &Control::Rank::in);
    const Mapped out(host_group_, op.out, &Control::Rank::out);
    switch (op.call.kind) {
      case Collective::Kind::all_reduce:
      case Collective::Kind::reduce_scatter:
        return sum(op, in.first, out.first);
      case Collective::Kind::all_gather:
        return gather_parts(host_group_, {in.first, out.first}, op.in.bytes());
      case Collective::Kind::broadcast:
        return copy_from_root(host_group_, {in.first, in.first}, op.in.bytes(), op.call.root);
      case Collective::Kind::all_to_all:
        return exchange_parts(host_group_, {in.first, out.first},
                              op.in.bytes() / static_cast<std::size_t>(size()));
      case Collective::Kind::barrier:
      case Collective::Kind::split:
      case Collective::Kind::expose:
      case Collective::Kind::share:
        return;
    }
  }

  /// Pointers to the tensors of the ranks of this host, which stay mapped meanwhile.
  struct Mapped {
    Mapped(HostGroup& host_group, const Tensor& own, shm::Address Control::Rank::*where) {
      const Places& places = host_group.places();
      for (int i = 0; i < static_cast<int>(places.here().size()); ++i) {
        if (i == places.place()) {
          first.push_back(reinterpret_cast<std::byte*>(own.data<std::uint8_t>()));
        } else {
          held.push_back(host_group.memory().find(host_group.control().of(i).*where));
          first.push_back(held.back().get());
        }
      }
    }
    std::vector<std::shared_ptr<std::byte>> held;
    std::vector<std::byte*> first;
  };

  void sum(const Operation& op, const std::vector<std::byte*>& in,
           const std::vector<std::byte*>& out) {
    const Places& places = host_group_.places();
    const bool everywhere = op.call.kind == Collective::Kind::all_reduce;
    const auto count = static_cast<std::size_t>(op.in.count());
    if (places.contiguous() && !places.alone_everywhere())
      return everywhere ? chain_everywhere(op, in, count) : chain_to_owners(op, in, out);
    // Two ranks that send each other all of a small array move no more bytes, in half of the steps.
    const bool both_sum = everywhere && sums_whole(op.call.bytes, size());
    PartSums sums{op.in.dtype(), {}, in, nullptr, everywhere && !both_sum, both_sum};
    for (int r = 0; r < size(); ++r) {
      const auto n = count / static_cast<std::size_t>(size());
      sums.parts.push_back(both_sum     ? Part{0, count}
                           : everywhere ? part_of(count, r, size())
                                        : Part{static_cast<std::size_t>(r) * n, n});
    }
    const auto own = static_cast<std::size_t>(places.place());
    const Part& part = sums.parts[static_cast<std::size_t>(rank())];
    const std::size_t element = size_of(op.in.dtype());
    sums.target = everywhere ? in[own] + part.begin * element : out[own];
    std::size_t other_parts = 0;
    for (const int r : places.here())
      if (r != rank()) other_parts += sums.parts[static_cast<std::size_t>(r)].count;
    count_local(part.count * element, other_parts * element, everywhere);
    sum_parts(host_group_, staging_, sums);
  }

  /// Counts the bytes of sums of this host: this rank reads `own` bytes of the array of each rank
  /// of its host, which read `others` bytes of this rank's in all; with `stores` the sums go back.
  void count_local(std::size_t own, std::size_t others, bool stores) {
    const auto peers = static_cast<std::int64_t>(host_group_.places().here().size()) - 1;
    const auto mine = static_cast<std::int64_t>(own) * peers;
    const auto theirs = static_cast<std::int64_t>(others);
    host_group_.count(theirs + (stores ? mine : 0), mine + (stores ? theirs : 0));
  }

  void chain_everywhere(const Operation& op, const std::vector<std::byte*>& in, std::size_t count) {
    const Places& places = host_group_.places();
    const std::size_t element = size_of(op.in.dtype()), whole = count * element;
    const bool alone = places.here().size() == 1;
    if (!places.has_column()) return count_local(0, whole, true);
    const Part column = part_of(count, places.place(), places.columns());
    count_local(column.count * element, alone ? 0 : whole - column.count * element, true);
    const std::size_t most = segment_bytes / element;
    std::vector<ChainPiece> pieces;
    for (std::size_t done = 0; done < column.count; done += most) {
      ChainPiece piece{column.begin + done, std::min(most, column.count - done)};
      piece.home = in[static_cast<std::size_t>(places.place())] + piece.begin * element;
      piece.targets = {piece.home};
      for (std::byte* array : in)
        if (std::byte* target = array + piece.begin * element; target != piece.home)
          piece.targets.push_back(target);
      pieces.push_back(std::move(piece));
    }
    sum_along_chain(host_group_, staging_, op.in.dtype(), {in.begin(), in.end()}, pieces);
  }

  void chain_to_owners(const Operation& op, const std::vector<std::byte*>& in,
                       const std::vector<std::byte*>& out) {
    const Places& places = host_group_.places();
    const auto n = static_cast<std::size_t>(op.out.count());
    const std::size_t element = size_of(op.in.dtype());
    const std::size_t most = segment_bytes / element;
    std::vector<ChainPiece> pieces;
    std::size_t summed = 0;
    for (int owner = 0; owner < size(); ++owner) {
      if (!places.has_column() || places.column_of(owner) != places.place()) continue;
      summed += n;
      for (std::size_t done = 0; done < n; done += most) {
        ChainPiece piece{static_cast<std::size_t>(owner) * n + done, std::min(most, n - done),
                         places.host_of(owner)};
        if (places.shares_host(owner))
          piece.targets = {out[static_cast<std::size_t>(places.place_of(owner))] + done * element};
        pieces.push_back(std::move(piece));
      }
    }
    const std::size_t whole = n * static_cast<std::size_t>(size());
    const bool alone = places.here().size() == 1;
    count_local(summed * element, alone ? 0 : (whole - summed) * element, false);
    count_delivered(n * element);
    sum_along_chain(host_group_, staging_, op.in.dtype(), {in.begin(), in.end()}, pieces);
  }

  /// Counts the parts that ranks of a column put into the memory of other ranks of their host.
  void count_delivered(std::size_t part) {
    const Places& places = host_group_.places();
    const auto bytes = static_cast<std::int64_t>(part);
    for (const int owner : places.here())
      if (places.column_of(owner) != places.place_of(owner))
        host_group_.count(places.column_of(owner) == places.place() ? bytes : 0,
                          owner == rank() ? bytes : 0);
  }

  Device& device_;
  Store& store_;
  Algorithm algorithm_;
  HostGroup host_group_;
  Staging staging_;
  std::uint64_t number_ = 0;  // of the last operation that has begun
  std::uint64_t calls_ = 0;   // of the last operation that this rank has called
  Messages local_messages_;
  HostMessages messages_;
  WorkQueue queue_;
};

}  // namespace

std::unique_ptr<Communicator> make_hosts_communicator(Device& device, Store& store,
                                                      const Group& group, const Hosts& hosts) {
  if (static_cast<int>(hosts.of_ranks.size()) != group.size)
    throw Error("{}: the hosts of {} ranks are given for a group of {}", group.name,
                hosts.of_ranks.size(), group.size);
  if (std::all_of(hosts.of_ranks.begin(), hosts.of_ranks.end(),
                  [&](int host) { return host == hosts.of_ranks.front(); }))
    return make_shm_communicator(device, store, group, hosts.timeout_s);
  if (is_program_of_messages(group.algorithm))
    if (const AlgorithmRow& row = find_algorithm(group.algorithm); row.check)
      row.check(hosts.of_ranks);
  return std::make_unique<HostsCommunicator>(device, store, group, hosts);
}

}  // namespace ringside::peer
