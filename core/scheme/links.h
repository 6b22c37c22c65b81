// How the ranks of a run reach each other.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/comm/communicator.h"

namespace ringside {

struct RankContext;

/// What a rank makes to reach its peers and its servers. Which implementations these are follows
/// from where the ranks live: on one host, on GPUs, in a simulated world. Whoever builds the ranks
/// knows that; schemes ask and do not name a device.
class Links {
 public:
  using MakeCommunicator =
      std::function<std::unique_ptr<Communicator>(const RankContext&, const Group&)>;

  /// To nobody: a rank that is alone.
  Links() = default;
  /// To peers alone.
  explicit Links(MakeCommunicator communicator) : communicator_(std::move(communicator)) {}
  /// To peers and servers. `transport` returns a std::unique_ptr<Transport>; core does not know
  /// the messages of servers, so Transport is a type of theirs (ps::Transport).
  template <class MakeTransport>
  Links(MakeCommunicator communicator, MakeTransport transport)
      : communicator_(std::move(communicator)), transport_(std::function(std::move(transport))) {}

  /// See RankContext::communicator().
  std::unique_ptr<Communicator> communicator(const RankContext& context, const Group& group) const {
    if (!communicator_) throw Error("group {}: this rank has no links to peers", group.name);
    return communicator_(context, group);
  }
  /// A new one. Throws Error where servers are not reached by a transport of this type.
  template <class Transport>
  std::unique_ptr<Transport> transport() const {
    const auto* make = std::any_cast<std::function<std::unique_ptr<Transport>()>>(&transport_);
    if (!make) throw Error("this rank has no links to servers");
    return (*make)();
  }

 private:
  MakeCommunicator communicator_;
  std::any transport_;  // std::function<std::unique_ptr<Transport>()>
};

}  // namespace ringside
