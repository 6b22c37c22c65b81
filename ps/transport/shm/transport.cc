#include "ps/transport/shm/transport.h"

#include "core/base/error.h"
#include "core/plan/worlds.h"
#include "ps/protocol/rendezvous.h"
#include "ps/transport/shm/channels.h"

namespace ringside::ps {
namespace {

constexpr const char* board_key = "ps.region";

std::shared_ptr<InProcessQueues> inside_of(const RankContext& context) {
  return context.shared ? context.shared->get<InProcessQueues>()
                        : std::make_shared<InProcessQueues>();
}

void check_device(Device& device) {
  if (!shares_memory(device))
    throw Error(
        "transport shm: other processes cannot map the memory of this rank's device; choose ipc or "
        "tcp");
}

class ShmTransport : public Transport {
 public:
  /// Server 0 draws the run's token and makes the region.
  Connection listen(const RankContext& context, const TransportOptions& options) override {
    check_device(context.device);
    const RankPlan& self = context.self();
    const int workers = context.plan.world, servers = context.plan.servers;
    std::shared_ptr<SharedRegion> region;
    if (self.server == 0) {
      region = SharedRegion::create(workers, servers);
      context.store.set(token_key, draw_token());
      context.store.set(board_key, region->address());
    } else {
      region =
          SharedRegion::join(context.store.get(board_key, options.timeout_s), workers, servers);
    }
    const std::uint64_t token = shared_token(context.store, options.timeout_s);
    const int colocated = context.shared ? self.worker : -1;
    auto channel =
        open_server(context.device, region, self.server, colocated, inside_of(context), options);
    context.store.set(endpoint_key(self.server), "shm");
    return {std::move(channel), token};
  }

  Connection connect(const RankContext& context, const TransportOptions& options) override {
    check_device(context.device);
    const RankPlan& self = context.self();
    const int colocated = context.shared ? self.server : -1;
    const std::uint64_t token = shared_token(context.store, options.timeout_s);
    auto region = SharedRegion::join(context.store.get(board_key, options.timeout_s),
                                     context.plan.world, context.plan.servers);
    for (int server = 0; server < context.plan.servers; ++server)
      context.store.get(endpoint_key(server, self.worker, process_in_seat(context.plan)),
                        options.timeout_s);
    return {connect_worker(context.device, std::move(region), self.worker, colocated,
                           inside_of(context), options, context.timeline),
            token};
  }
};

}  // namespace

bool shares_memory(Device& device) {
  return device.allocate(1, MemoryKind::communication)->address().file >= 0;
}

std::unique_ptr<Transport> shm_transport() { return std::make_unique<ShmTransport>(); }

}  // namespace ringside::ps
