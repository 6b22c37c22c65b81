// The queue of messages that wait until their two ranks are connected and earlier messages are
// launched.
#include "peer/comm/nccl/module/messages.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace ringside::peer {

OperationPtr NcclMessages::post(const std::string& what, const Tensor& array, int peer,
                                bool sends) {
  const Message message{std::make_shared<Operation>(Operation{what, 0, array, {}}), device_.mark()};
  if (peer == self_.rank) {
    post_to_self(message, sends);
  } else {
    Way& way = sends ? this->way(self_.rank, peer) : this->way(peer, self_.rank);
    if (way.waiting.empty()) way.since = device_.clock().now();
    way.waiting.push_back(message);
    advance(way);
  }
  return message.operation;
}

void NcclMessages::advance() {
  for (auto& [ends, way] : ways_) advance(*way);
}

void NcclMessages::launch(const Operation& message) {
  const auto waits_in = [&](const std::deque<Message>& messages) {
    return std::any_of(messages.begin(), messages.end(),
                       [&](const Message& each) { return each.operation.get() == &message; });
  };
  if (waits_in(sent_to_self_) || waits_in(received_from_self_))
    throw Error(
        "{}: {} was sent without being received, or the other way round; waiting for it would "
        "never end",
        self_.place, message.what);
  // Every step of connecting and launching has a deadline of its own.
  poll(device_.clock(), std::numeric_limits<double>::infinity(), [&] {
    advance();
    return message.launched;
  });
}

void NcclMessages::look() {
  for (auto& [ends, way] : ways_) way->lane.look();
}

void NcclMessages::abort() noexcept {
  for (auto& [ends, way] : ways_) way->lane.abort();
}

bool NcclMessages::finish() noexcept {
  for (auto& [ends, way] : ways_)
    if (!way->lane.finish()) return false;
  return true;
}

NcclMessages::Way& NcclMessages::way(int from, int to) {
  const std::pair ends(from, to);
  if (const auto found = ways_.find(ends); found != ways_.end()) return *found->second;
  const bool sends = from == self_.rank;
  NcclRank end = self_;
  end.name = fmt::format("{}/{} to {}", self_.name, from, to);
  end.rank = sends ? 0 : 1;
  end.size = 2;
  Handle handle(store_, end);
  std::unique_ptr<Way> way(
      new Way{{device_, std::move(handle), timeout_s_}, sends ? 1 : 0, sends, 0});
  return *ways_.emplace(ends, std::move(way)).first->second;
}

void NcclMessages::advance(Way& way) {
  while (way.lane.is_through() && !way.waiting.empty()) {
    if (!way.lane.handle().connected()) {
      if (device_.clock().now() - way.since <= timeout_s_) return;
      throw Error(
          "{}: {}: the other rank did not come to the first message of this direction within {} s; "
          "see the error of that rank, or raise train.timeout_s",
          self_.place, way.waiting.front().operation->what, timeout_s_);
    }
    const Message message = std::move(way.waiting.front());
    way.waiting.pop_front();
    const Tensor& array = message.operation->in;
    way.lane.launch(message.operation, message.after, [&] {
      void* data = array.data<std::uint8_t>();
      const ncclComm_t comm = way.lane.handle().get();
      return way.sends ? ncclSend(data, array.bytes(), ncclUint8, way.to, comm, way.lane.stream())
                       : ncclRecv(data, array.bytes(), ncclUint8, way.to, comm, way.lane.stream());
    });
  }
}

void NcclMessages::post_to_self(const Message& message, bool sends) {
  (sends ? sent_to_self_ : received_from_self_).push_back(message);
  if (sent_to_self_.empty() || received_from_self_.empty()) return;
  const Operation& from = *sent_to_self_.front().operation;
  const Operation& to = *received_from_self_.front().operation;
  if (from.in.bytes() != to.in.bytes())
    throw Error("{}: {} does not fit its receiver, which expects {} bytes", self_.place, from.what,
                to.in.bytes());
  // The copy waits for no other rank, so it can run on the compute stream.
  const auto stream = static_cast<cudaStream_t>(device_.compute_stream());
  const Mark begin = device_.mark();
  if (from.in.count() > 0) {
    const cudaError_t status =
        cudaMemcpyAsync(to.in.data<std::uint8_t>(), from.in.data<std::uint8_t>(), from.in.bytes(),
                        cudaMemcpyDeviceToDevice, stream);
    if (status != cudaSuccess)
      throw Error("{}: {}: cudaMemcpyAsync: {}", self_.place, from.what,
                  cudaGetErrorString(status));
  }
  for (auto* messages : {&sent_to_self_, &received_from_self_}) {
    messages->front().operation->span = {begin, device_.mark()};
    messages->front().operation->launched = true;
    messages->pop_front();
  }
}

}  // namespace ringside::peer
