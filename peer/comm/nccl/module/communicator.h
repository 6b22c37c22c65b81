// The communicator over NCCL.
#pragma once

#include <exception>
#include <mutex>
#include <string>

#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "peer/comm/calling.h"
#include "peer/comm/nccl/module/handle.h"
#include "peer/comm/nccl/module/lane.h"
#include "peer/comm/nccl/module/messages.h"

namespace ringside::peer {

/// Nothing here waits for the device but barrier() and split(): whoever does asks check(), which
/// sees errors of NCCL and operations whose time is over. Either aborts the group for good.
class NcclCommunicator final : public CallingCommunicator, public cuda::Watch {
 public:
  /// `handle`: connected. The device and the store outlive it.
  NcclCommunicator(cuda::CudaDevice& device, Store& store, Handle handle, double timeout_s);
  /// Ends the group in order if all ranks do; aborts it after an error, and after the deadline.
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  void barrier() override;
  std::unique_ptr<Communicator> split(int colour, int key) override;
  Traffic traffic() const override;

  void check() override;

 private:
  class NcclWork;

  WorkPtr begin(const Call& call, const Tensor& in, const Tensor& out) override;
  WorkPtr begin_message(const Tensor& array, int peer, bool sends) override;
  /// Has NCCL enqueue the operation, and says what NCCL says.
  ncclResult_t enqueue(const Call& call, const Tensor& in, const Tensor& out);
  ncclResult_t enqueue_exchange(const Tensor& in, const Tensor& out);

  /// Later compute waits for it. `blocks`: a message that is not on its way is brought there.
  void wait(const OperationPtr& operation, bool blocks);
  void look();

  /// Does `body` if the group has not failed; if that throws Error, the group has. Under the mutex.
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
  Lane lane_;
  NcclMessages messages_;
  std::string failure_;                // of the group; empty if there is none
  Traffic traffic_{.computed = true};  // NCCL does not say what it sends
  std::uint64_t number_ = 0;           // of the last operation
};

}  // namespace ringside::peer
