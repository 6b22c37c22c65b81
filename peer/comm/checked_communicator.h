// CheckedCommunicator: the base of communicators, which checks arguments and turns each collective
// into a Collective.
#pragma once

#include <string>
#include <string_view>

#include "core/comm/communicator.h"
#include "peer/comm/collective.h"

namespace ringside::peer {

/// Checks the arguments in the same way on every device, and leaves the operation to the
/// implementation.
class CheckedCommunicator : public Communicator {
 public:
  WorkPtr all_reduce(const Tensor& array) final;
  WorkPtr reduce_scatter(const Tensor& array, const Tensor& part) final;
  WorkPtr all_gather(const Tensor& part, const Tensor& array) final;
  WorkPtr broadcast(const Tensor& array, int root) final;
  WorkPtr all_to_all(const Tensor& in, const Tensor& out) final;
  WorkPtr send(const Tensor& array, int to) final;
  WorkPtr recv(const Tensor& array, int from) final;
  /// Throws Error: for communicators whose ranks cannot reach each other's memory.
  std::unique_ptr<Window> expose(const Tensor& tensor) override;
  /// Returns an empty tensor: for the same communicators.
  Tensor share(std::int64_t, MemoryKind, DType) override { return {}; }

 protected:
  explicit CheckedCommunicator(const Group& group)
      : Communicator(group.rank, group.size), name_(group.name) {}
  const std::string& name() const { return name_; }
  /// Throws Error if the group has no such rank; `what` is the operation.
  void check_rank(const char* what, int rank) const;

  /// Begins the operation: peers see `in`, and the result goes to `out`, which may be the same
  /// tensor.
  virtual WorkPtr begin(const Collective& call, const Tensor& in, const Tensor& out) = 0;
  /// The number of the collective that this rank has called last.
  virtual std::uint64_t last_call() const = 0;
  /// Begins to send the array to the peer, or to receive it.
  virtual WorkPtr begin_message(const Tensor& array, int peer, bool sends) = 0;

 private:
  /// begin(), with a Work that has a note for traces.
  WorkPtr noted(const Collective& call, const Tensor& in, const Tensor& out);
  WorkPtr noted(std::string_view message, const Tensor& array, WorkPtr work);
  void check_parts(const char* what, const Tensor& array, const Tensor& part) const;
  void check_sum(const char* what, const Tensor& array) const;

  std::string name_;
};

}  // namespace ringside::peer
