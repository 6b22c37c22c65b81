// The steps of a collective by an algorithm: receivers read directly from the senders' memory.
#pragma once

#include <atomic>
#include <vector>

#include "core/shm/peer_memory.h"
#include "core/tensor/tensor.h"
#include "peer/comm/algorithms/exchange.h"
#include "peer/comm/shm/control.h"

namespace ringside::peer {

/// Runs on the thread that carries out the communicator's collectives. A message costs the receiver
/// one pass over its bytes, which also adds them up. All ranks are on one host. If a peer does not
/// reach a step within the group's deadline, the group breaks.
class ShmExchange : public Exchange {
 public:
  /// An operand and its address.
  struct Operand {
    Tensor tensor;
    shm::Address address;
  };
  /// The steps of collective `number` of the group. `operands` are in the order of the values of
  /// Array. All arguments outlive this object.
  ShmExchange(Control& control, shm::PeerMemory& memory, std::uint64_t number,
              const Collective& call, const std::vector<Operand>& operands);

  int rank() const override { return control_.rank(); }
  const std::vector<int>& hosts() const override { return hosts_; }
  std::int64_t count(Array array) const override { return of(array).tensor.count(); }
  void step(const std::vector<Sending>& sends, const std::vector<Receiving>& receives) override;
  void copy(const Elements& from, const Elements& to) override;
  void add(const Elements& from, const Elements& to) override;

  /// The bytes that have crossed between this rank and others so far.
  Traffic traffic() const { return traffic_; }

 private:
  /// A message of the step under way.
  struct Pending {
    int peer = 0;
    Elements elements;                     // that are sent, or where the message goes
    const Receiving* receiving = nullptr;  // null: this rank sends
    std::optional<std::uint32_t> turn{};   // its number on its lane; none before its turn
    bool done = false;
  };

  const Operand& of(Array array) const { return operands_[static_cast<std::size_t>(array)]; }
  std::size_t bytes(const Elements& elements) const;
  std::byte* data(const Elements& elements) const;
  shm::Address address(const Elements& elements) const;
  Control::Lane& lane(const Pending& message) const;
  /// Moves the message on; returns whether anything happened.
  bool advance(Pending& message);
  void receive(const Pending& message, const shm::Address& source);
  void check_peer(const Pending& message, double waited_s);

  Control& control_;
  shm::PeerMemory& memory_;
  std::uint64_t number_;
  const Collective& call_;
  const std::vector<Operand>& operands_;
  std::vector<int> hosts_;
  Traffic traffic_;
};

}  // namespace ringside::peer
