#include "ps/wires/zmq/transport.h"

#include "ps/protocol/rendezvous.h"
#include "ps/wires/zmq/ends.h"

namespace ringside::ps {
namespace {

std::shared_ptr<Hub> hub_of(const RankContext& context) {
  return context.shared ? context.shared->get<Hub>() : std::make_shared<Hub>();
}

class ZmqTransport : public Transport {
 public:
  /// Server 0 draws the run's token.
  Connection listen(const RankContext& context, const TransportOptions& options) override {
    const int server = context.self().server;
    if (server == 0) context.store.set(token_key, draw_token());
    const std::uint64_t token = shared_token(context.store, options.timeout_s);
    ServerEnd end = open_server(context.device, hub_of(context), token, server, options);
    context.store.set(endpoint_key(server), end.endpoint);
    return {std::move(end.channel), token};
  }

  Connection connect(const RankContext& context, const TransportOptions& options) override {
    const std::uint64_t token = shared_token(context.store, options.timeout_s);
    std::vector<std::string> endpoints;
    for (int server = 0; server < context.plan.servers; ++server) {
      const bool beside = context.shared && context.self().server == server;
      endpoints.push_back(beside ? local_endpoint(server)
                                 : context.store.get(endpoint_key(server), options.timeout_s));
    }
    return {connect_worker(context.device, hub_of(context), token, context.self().worker, endpoints,
                           options, context.timeline),
            token};
  }
};

}  // namespace

std::unique_ptr<Transport> zmq_transport() { return std::make_unique<ZmqTransport>(); }

}  // namespace ringside::ps
