// Messages are gathered into launches, and a launch is followed until it is through.
#include "peer/comm/nccl/module/messages.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside::peer {

OperationPtr NcclMessages::post(const std::string& what, const Tensor& array, int peer,
                                bool sends) {
  auto operation = std::make_shared<Operation>(Operation{what, array, {}});
  const Mark now = device_.mark();
  if (array.count() > 0) {
    posted_.push_back({operation, now, peer, sends});
  } else {
    operation->span = {now, now};
    operation->launched = true;
  }
  return operation;
}

void NcclMessages::advance() {
  if (!launching_.empty()) {
    if (handle_.settled(launching_.front()->what)) return settle(), advance();
    if (device_.clock().now() - since_ > timeout_s_)
      handle_.settle(ncclInProgress, 0, launching_.front()->what);
    return;
  }
  if (const auto batch = take_batch(); !batch.empty()) start(batch);
}

void NcclMessages::launch(const Operation& message) {
  while (!message.launched) {
    advance();
    if (message.launched) return;
    if (launching_.empty())
      throw Error("{}: {} has no other end and would wait for ever", handle_.group().place(),
                  message.what);
    handle_.settle(ncclInProgress, timeout_s_, launching_.front()->what);
    settle();
  }
}

std::vector<NcclMessages::Message> NcclMessages::take_batch() {
  // NCCL takes both ends of a message to oneself in one launch only.
  const int self = handle_.group().rank;
  const auto to_self = [&](bool sends) {
    return std::count_if(posted_.begin(), posted_.end(), [&](const Message& message) {
      return message.peer == self && message.sends == sends;
    });
  };
  const auto pairs = std::min(to_self(true), to_self(false));
  decltype(to_self(true)) taken[2] = {0, 0};
  std::vector<Message> batch;
  std::erase_if(posted_, [&](Message& message) {
    if (message.peer == self && taken[message.sends]++ >= pairs) return false;
    batch.push_back(message);
    return true;
  });
  return batch;
}

void NcclMessages::start(const std::vector<Message>& batch) {
  lane_.first();  // forgets what is over
  begin_ = lane_.begin_after(batch.back().after);
  since_ = device_.clock().now();
  ncclResult_t result = ncclGroupStart();
  for (const Message& message : batch) {
    launching_.push_back(message.operation);
    const Tensor& array = message.operation->in;
    void* data = array.data<std::uint8_t>();
    const ncclResult_t added =
        message.sends
            ? ncclSend(data, array.bytes(), ncclUint8, message.peer, handle_.get(), lane_.stream())
            : ncclRecv(data, array.bytes(), ncclUint8, message.peer, handle_.get(), lane_.stream());
    if (result == ncclSuccess && added != ncclInProgress) result = added;
  }
  const ncclResult_t ended = ncclGroupEnd();
  if (handle_.settled(result == ncclSuccess ? ended : result, launching_.front()->what)) settle();
}

void NcclMessages::settle() {
  lane_.end(launching_, begin_);
  launching_.clear();
}

}  // namespace ringside::peer
