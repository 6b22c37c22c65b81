#include "peer/comm/sim/rma_operations.h"

#include <new>

#include "peer/comm/sim/routes.h"

namespace ringside::peer {
std::size_t SimAccesses::expose(int rank, const Tensor& tensor) {
  std::vector<Exposed>& own = exposed_[rank];
  // The pointer owns nothing: a buffer must not outlive the device of its rank.
  auto* first = reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>());
  own.push_back({std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), first), tensor.bytes()});
  return own.size() - 1;
}

std::vector<Exposed> SimAccesses::memory(std::size_t window) const {
  std::vector<Exposed> out;
  for (int r = 0; r < group_.size(); ++r) out.push_back(exposed_.at(r).at(window));
  return out;
}

std::shared_ptr<std::byte> SimAccesses::share(int rank, std::size_t bytes, bool values) {
  const std::size_t array = asked_[rank]++;
  if (array < shared_.size()) return shared_[array].lock();
  constexpr std::align_val_t alignment{64};
  std::shared_ptr<std::byte> first;
  if (values && bytes > 0)
    first = {static_cast<std::byte*>(::operator new(bytes, alignment)),
             [](std::byte* memory) { ::operator delete(memory, alignment); }};
  shared_.push_back(first);
  return first;
}

SimAccesses::TransferPtr SimAccesses::start(int caller, const RmaOperation& access) {
  sim::World& world = group_.world();
  auto transfer = std::make_shared<Transfer>(Transfer{.bytes = access.local.bytes(),
                                                      .kind = access.kind,
                                                      .caller = caller,
                                                      .owner = access.owner,
                                                      .begin = world.now()});
  transfer->changed = world.make_event();
  std::pair<int, int> way{caller, access.owner};
  if (access.kind == RmaOperation::Kind::get) std::swap(way.first, way.second);
  if (group_.shares_memory()) way = {caller, caller};
  Lane& lane = lanes_[way];
  lane.waiting.push_back(transfer);
  if (!lane.changed) {
    lane.changed = world.make_event();
    world.spawn(
        fmt::format("{} transfers {} to {}", group_.name(), way.first, way.second),
        group_.place(caller), [this, group = group_.shared_from_this(), &lane] { serve(lane); },
        true);
  }
  lane.changed->notify_all();
  return transfer;
}

void SimAccesses::await(const Transfer& transfer) const {
  while (!transfer.done) transfer.changed->wait(sim::for_ever);
}

void SimAccesses::end_services() {
  for (auto& [way, lane] : lanes_) lane.changed->notify_all();
}

void SimAccesses::serve(Lane& lane) const {
  for (;;) {
    while (lane.waiting.empty() && !group_.closed()) lane.changed->wait(sim::for_ever);
    if (lane.waiting.empty()) return;
    const TransferPtr transfer = lane.waiting.front();
    carry(*transfer);
    lane.waiting.pop_front();
    transfer->end = group_.world().now();
    transfer->done = true;
    transfer->changed->notify_all();
  }
}

void SimAccesses::carry(const Transfer& transfer) const {
  sim::World& world = group_.world();
  const sim::Place caller = group_.place(transfer.caller), owner = group_.place(transfer.owner);
  const auto bytes = static_cast<double>(transfer.bytes);
  if (group_.shares_memory()) {
    const bool sums = transfer.kind == RmaOperation::Kind::add;
    const double moved = bytes * (sums ? 3 : 2);
    if (moved > 0)
      world.start_work(caller, seconds_in_memory(world.cluster(), caller, moved, sums))->wait();
    return;
  }
  if (transfer.caller == transfer.owner) return world.start_flow(owner, owner, bytes)->wait();
  const bool reads = transfer.kind == RmaOperation::Kind::get;
  const sim::Place from = reads ? owner : caller, to = reads ? caller : owner;
  // start_flow() takes the latency of one way itself.
  const double ask = reads ? world.latency(caller, owner) : 0;
  world.sleep(ask + step_seconds(world, from, to) - world.latency(from, to));
  world.start_flow(from, to, bytes)->wait();
}

}  // namespace ringside::peer
