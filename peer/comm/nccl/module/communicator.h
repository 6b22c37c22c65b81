// The communicator over NCCL.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "peer/comm/checked_communicator.h"
#include "peer/comm/nccl/module/handle.h"
#include "peer/comm/nccl/module/lane.h"
#include "peer/comm/nccl/module/messages.h"
#include "peer/comm/records.h"

namespace ringside::peer {

/// Only barrier() and split() wait for the device. Every thread that waits for the device calls
/// check(), which aborts the group for good if NCCL failed or an operation is past its deadline.
class NcclCommunicator final : public CheckedCommunicator, public cuda::Watch {
 public:
  /// `handle` is connected. The device and the store outlive the communicator.
  NcclCommunicator(cuda::CudaDevice& device, Store& store, Handle handle, double timeout_s);
  /// Ends the group together with the other ranks; aborts it after an error or at the deadline.
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  void barrier() override;
  std::unique_ptr<Communicator> split(int colour, int key) override;
  Traffic traffic() const override;

  void check() override;

 private:
  class NcclWork;

  WorkPtr begin(const Collective& call, const Tensor& in, const Tensor& out) override;
  std::uint64_t last_call() const override;
  WorkPtr begin_message(const Tensor& array, int peer, bool sends) override;
  /// Makes NCCL enqueue the operation, and returns NCCL's result.
  ncclResult_t enqueue(const Collective& call, const Tensor& in, const Tensor& out);
  ncclResult_t enqueue_exchange(const Tensor& in, const Tensor& out);

  /// Makes later compute wait for the operation. If the operation is a message that has not been
  /// launched yet, first blocks until it is launched if `blocks` is true, else leaves compute as
  /// it is. Then looks for errors.
  void wait(const OperationPtr& operation, bool blocks);
  bool ended(const Operation& operation);
  void look();
  /// Notes in the records which collectives have ended.
  void note_ended();

  /// Calls `body` unless the group has failed before. If `body` throws Error, the group has failed.
  /// The caller holds the mutex.
  template <class Body>
  auto guarded(const Body& body) {
    if (!failure_.empty()) throw Error(failure_);
    try {
      return body();
    } catch (const Error& error) {
      failure_ = error.what();
      lane_.abort();
      messages_.abort();
      throw;
    }
  }

  cuda::CudaDevice& device_;
  Store& store_;
  const double timeout_s_;
  const int exceptions_ = std::uncaught_exceptions();
  mutable std::mutex mutex_;
  Records records_;
  Lane lane_;
  NcclMessages messages_;
  std::string failure_;                // why the group failed; empty if it has not
  Traffic traffic_{.computed = true};  // NCCL does not say what it sends
  std::uint64_t number_ = 0;           // number of the last operation
  std::uint64_t ended_ = 0;            // number of the last one that is known to have ended
};

}  // namespace ringside::peer
