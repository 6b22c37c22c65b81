// The links of a rank to the other ranks of its run.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/comm/communicator.h"
#include "core/device/virtual_storage.h"

namespace ringside {

struct RankContext;

/// A factory of the objects with which a rank reaches its peers and its servers. Their
/// implementations depend on the place of the ranks: one host, GPUs, or a simulated world. The code
/// that builds the ranks chooses them; schemes only ask, and name no device.
class Links {
 public:
  using MakeCommunicator =
      std::function<std::unique_ptr<Communicator>(const RankContext&, const Group&)>;

  using MakeStorage = std::function<std::unique_ptr<VirtualStorage>(const RankContext&)>;

  /// Links of a run with one rank: communicator() and transport() throw Error.
  Links() = default;
  /// Links to peers only.
  explicit Links(MakeCommunicator communicator) : communicator_(std::move(communicator)) {}
  /// Links to peers and servers. `transport` returns a std::unique_ptr<Transport>. core/ does not
  /// know the messages of servers, so Transport is a type from the servers' code (ps::Transport).
  template <class MakeTransport>
  Links(MakeCommunicator communicator, MakeTransport transport, MakeStorage storage = {})
      : communicator_(std::move(communicator)),
        transport_(std::function(std::move(transport))),
        storage_(std::move(storage)) {}

  /// See RankContext::communicator().
  std::unique_ptr<Communicator> communicator(const RankContext& context, const Group& group) const {
    if (!communicator_) throw Error("group {}: this rank has no links to peers", group.name);
    return communicator_(context, group);
  }
  /// Makes a new transport. Throws Error if this rank's transport to servers is not of this type.
  template <class Transport>
  std::unique_ptr<Transport> transport() const {
    const auto* make = std::any_cast<std::function<std::unique_ptr<Transport>()>>(&transport_);
    if (!make) throw Error("this rank has no links to servers");
    return (*make)();
  }
  /// The storage of this rank's checkpoints in virtual time; null for a rank of a real run, whose
  /// checkpoints are files.
  std::unique_ptr<VirtualStorage> storage(const RankContext& context) const {
    return storage_ ? storage_(context) : nullptr;
  }

 private:
  MakeCommunicator communicator_;
  std::any transport_;  // std::function<std::unique_ptr<Transport>()>
  MakeStorage storage_;
};

}  // namespace ringside
