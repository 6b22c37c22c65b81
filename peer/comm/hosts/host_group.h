// HostGroup: one rank in a group of several hosts, with its links to the ranks of its own host and
// to all others.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/traffic.h"
#include "core/shm/peer_memory.h"
#include "peer/comm/hosts/communicator.h"
#include "peer/comm/hosts/places.h"
#include "peer/comm/shm/control.h"
#include "peer/comm/wire.h"

namespace ringside::peer {

/// The common base of collectives and messages of a group on several hosts: the shared state of
/// this host's ranks, the wire to all ranks, and waits whose errors name the missing ranks. At the
/// beginning of every collective, ranks of the same column on neighbouring hosts send
/// each other a description of it (64 bytes, awaited only when the first values have arrived), so
/// that ranks of different hosts that call different operations get an error.
class HostGroup {
 public:
  /// Collective; blocks until all ranks have joined. Throws Error that names the missing ranks.
  HostGroup(Device& device, Store& store, const Group& group, const Hosts& hosts);
  /// Unless the group is broken, waits for the destructors of all other ranks, for up to 5 s.
  ~HostGroup();
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  const Group& group() const { return group_; }
  const Hosts& hosts() const { return hosts_; }
  const Places& places() const { return places_; }
  Control& control() { return control_; }
  const Control& control() const { return control_; }
  shm::PeerMemory& memory() { return memory_; }

  /// Runs `body` as collective `number` of this rank. `in` and `out` are operands that ranks of
  /// this host read and write. An exception of `body` breaks the group.
  void run(std::uint64_t number, const Collective& call, const shm::Address& in,
           const shm::Address& out, std::string_view purpose, const std::function<void()>& body);

  /// Begin to move values of the collective under way between this rank and one of another host,
  /// and count them. Return null for no bytes.
  TransferPtr send(int peer, Wire::Lane lane, std::span<const std::byte> bytes);
  TransferPtr receive(int peer, Wire::Lane lane, std::span<std::byte> bytes);
  /// Waits for a transfer of the collective under way, and destroys it; does nothing for null.
  /// Breaks the group if the peer is not done within the deadline.
  void wait(TransferPtr& transfer, int peer);
  /// The same for any transfer. `missed` is the text of the error for a peer that has ended
  /// (`gone`) or is late.
  void wait(Transfer& transfer, int peer, const std::function<std::string(bool gone)>& missed);
  /// Sums the arrays of all ranks by the library's own all-reduce (Wire::all_reduce).
  void sum_by_library(DType dtype, std::span<std::byte> array);
  /// Waits for all hosts: dissemination between the first ranks of hosts (Hensgen, Finkel and
  /// Manber 1988), of one byte a message.
  void meet();

  /// Counts bytes that crossed between ranks of this host.
  void count(std::int64_t sent, std::int64_t received);
  Traffic traffic() const { return {sent_.load(), received_.load(), computed_.load()}; }

  Wire& wire() { return *wire_; }
  /// Breaks the group on this rank's host and tells other hosts why; throws the text.
  [[noreturn]] void fail(const std::string& what);
  /// The same for peers of which one has left, or whose connection broke because of `cause`: throws
  /// the text with which one of them broke the group, if one did.
  [[noreturn]] void fail_gone(const std::vector<int>& peers, const std::string& cause,
                              const std::string& missed);

 private:
  /// The description of a collective that neighbours exchange; number 0 says that the rank has
  /// left.
  struct Head {
    std::uint64_t number = 0;
    Collective call;
    std::byte unused[64 - sizeof(std::uint64_t) - sizeof(Collective)] = {};
  };
  /// A rank of this column on a neighbouring host.
  struct Neighbour {
    int rank = 0;
    Head said, heard;
    TransferPtr saying, hearing;
  };
  /// Calls `start`, and breaks the group if the connection to the peer is broken.
  TransferPtr started(int peer, const std::function<TransferPtr()>& start);
  void listen(Neighbour& neighbour);
  void say(Neighbour& neighbour, const Head& head);
  /// Waits for the neighbours' descriptions, once in a collective.
  void hear_neighbours();
  std::string who(int rank) const;
  /// wait() for a transfer in which all `peers` take part.
  void wait_for(Transfer& transfer, const std::vector<int>& peers,
                const std::function<std::string(bool gone)>& missed);
  std::string broken_key(int rank) const;
  std::string where_key(int host) const;
  /// Sends the records of this host's ranks to other hosts, once for all of these ranks; returns
  /// whether this rank was the first to do so.
  bool say_where_ranks_are();
  /// Lists the last operations of the ranks on all hosts that answer. Blocks for at most a second.
  /// Called by a rank whose wait has timed out; some ranks of every host call it at nearly the same
  /// time.
  std::string where_all_are();
  /// Sends other hosts the reason for which this rank has left the broken group.
  void tell_others();
  void leave();

  Store& store_;
  Group group_;
  Hosts hosts_;
  Places places_;
  Control control_;
  shm::PeerMemory memory_;
  std::unique_ptr<Wire> wire_;
  std::vector<Neighbour> neighbours_;
  bool heard_ = true;
  std::uint64_t number_ = 0;
  Collective call_;
  std::atomic<std::int64_t> sent_{0}, received_{0};
  std::atomic<bool> computed_{false};  // whether some of these bytes are (Traffic::computed)
  std::mutex telling_;
  bool told_ = false;
};

}  // namespace ringside::peer
