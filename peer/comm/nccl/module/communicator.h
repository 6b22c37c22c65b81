// The communicator over NCCL.
#pragma once

#include <exception>
#include <mutex>
#include <string>

#include "core/base/error.h"
#include "core/comm.h"
#include "core/device/cuda/cuda.h"
#include "peer/comm/nccl/module/handle.h"
#include "peer/comm/nccl/module/lane.h"
#include "peer/comm/nccl/module/messages.h"

namespace ringside::peer {

/// Nothing here waits for the device but barrier() and split(): whoever does asks check(), which
/// sees errors of NCCL and operations whose time is over. Either aborts the group for good.
class NcclCommunicator final : public Communicator, public cuda::Watch {
 public:
  /// `handle`: connected. The device and the store outlive it.
  NcclCommunicator(cuda::CudaDevice& device, Store& store, Handle handle, double timeout_s);
  /// Ends the group in order if all ranks do; aborts it after an error, and after the deadline.
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  WorkPtr all_reduce(const Tensor& array) override;
  WorkPtr reduce_scatter(const Tensor& array, const Tensor& part) override;
  WorkPtr all_gather(const Tensor& part, const Tensor& array) override;
  WorkPtr broadcast(const Tensor& array, int root) override;
  WorkPtr all_to_all(const Tensor& in, const Tensor& out) override;
  WorkPtr send(const Tensor& array, int to) override;
  WorkPtr recv(const Tensor& array, int from) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int colour, int key) override;
  Traffic traffic() const override;

  void check() override;

 private:
  class NcclWork;

  /// Has `call` enqueue an operation on the lane, after the compute that is enqueued now.
  template <class Call>
  WorkPtr submit(const std::string& what, const Tensor& in, const Tensor& out, const Traffic& bytes,
                 const Call& call);
  WorkPtr post(const Tensor& array, int peer, bool sends);
  WorkPtr sum(const std::string& what, const Tensor& array, const Traffic& bytes);

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

  ncclDataType_t sum_type(const char* what, const Tensor& array) const;
  void check_parts(const char* what, const Tensor& array, const Tensor& part) const;
  void check_rank(const char* what, int rank) const;

  cuda::CudaDevice& device_;
  Store& store_;
  const double timeout_s_;
  const std::string name_;  // of the group
  const int exceptions_ = std::uncaught_exceptions();
  mutable std::mutex mutex_;
  Lane lane_;
  NcclMessages messages_;
  std::string failure_;  // of the group; empty if there is none
  Traffic traffic_;
  std::uint64_t number_ = 0;  // of the last operation
};

}  // namespace ringside::peer
