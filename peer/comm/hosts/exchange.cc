#include "peer/comm/hosts/exchange.h"

#include <cstring>

#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

struct PendingTransfer {
  TransferPtr transfer;
  int peer = 0;
};

}  // namespace

std::span<std::byte> HostExchange::memory(const Elements& elements) const {
  if (elements.count == 0) return {};
  const Tensor& tensor = of(elements.array);
  const std::size_t element = size_of(tensor.dtype());
  return {reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>()) +
              static_cast<std::size_t>(elements.begin) * element,
          static_cast<std::size_t>(elements.count) * element};
}

void HostExchange::step(const std::vector<Sending>& sends, const std::vector<Receiving>& receives) {
  std::size_t added = 0;
  for (const Receiving& one : receives)
    if (one.plus) added += memory(one.into).size();
  if (arrived_.size() < added) arrived_.resize(added);
  std::vector<PendingTransfer> receiving, sending;
  std::byte* place = arrived_.data();
  for (const Receiving& one : receives) {
    const std::span<std::byte> into = memory(one.into);
    const std::span<std::byte> here = one.plus ? std::span(place, into.size()) : into;
    if (one.plus) place += into.size();
    receiving.push_back({host_group_.receive(one.from, Wire::Lane::steps, here), one.from});
  }
  for (const Sending& one : sends)
    sending.push_back({host_group_.send(one.to, Wire::Lane::steps, memory(one.from)), one.to});
  place = arrived_.data();
  for (std::size_t i = 0; i < receives.size(); ++i) {
    host_group_.wait(receiving[i].transfer, receiving[i].peer);
    if (!receives[i].plus) continue;
    const std::span<std::byte> into = memory(receives[i].into);
    std::byte* const target = into.data();
    const std::byte* const sources[] = {memory(*receives[i].plus).data(), place};
    if (!into.empty())
      sum_in_order(of(receives[i].into.array).dtype(), sources, {&target, 1},
                   static_cast<std::size_t>(receives[i].into.count));
    place += into.size();
  }
  for (PendingTransfer& one : sending) host_group_.wait(one.transfer, one.peer);
}

void HostExchange::copy(const Elements& from, const Elements& to) {
  const auto source = memory(from), target = memory(to);
  if (!source.empty() && source.data() != target.data())
    std::memcpy(target.data(), source.data(), source.size());
}

void HostExchange::add(const Elements& from, const Elements& to) {
  if (from.count == 0) return;
  std::byte* const into = memory(to).data();
  const std::byte* const sources[] = {into, memory(from).data()};
  sum_in_order(of(to.array).dtype(), sources, {&into, 1}, static_cast<std::size_t>(from.count));
}

}  // namespace ringside::peer
