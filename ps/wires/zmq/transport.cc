#include "ps/wires/zmq/transport.h"

#include <thread>

#include "ps/protocol/rendezvous.h"
#include "ps/wires/zmq/ends.h"

namespace ringside::ps {
namespace {

constexpr const char* secret_key = "ps.secret";

std::shared_ptr<Hub> hub_of(const RankContext& context, const TransportOptions& options) {
  auto hub = context.shared ? context.shared->get<Hub>() : std::make_shared<Hub>();
  hub->use_threads(static_cast<int>(options.io_threads));
  return hub;
}

/// Draws 256 random bits, which nobody outside of the run can know.
std::string draw_secret() {
  std::string digits;
  for (int part = 0; part < 4; ++part) digits += draw_token();
  return digits;
}

/// Waits for what server 0 has drawn.
Run shared_run(const RankContext& context, const TransportOptions& options) {
  Run run;
  run.token = shared_token(context.store, options.timeout_s);
  run.secret = context.store.get(secret_key, options.timeout_s);
  const bool worker_beside = context.shared && context.self().worker >= 0;
  run.outside = context.plan.world - (worker_beside ? 1 : 0);
  run.has_cores = context.plan.world + context.plan.servers <=
                  static_cast<int>(std::thread::hardware_concurrency());
  return run;
}

class ZmqTransport : public Transport {
 public:
  /// Server 0 draws the run's token and its secret.
  Connection listen(const RankContext& context, const TransportOptions& options) override {
    const int server = context.self().server;
    if (server == 0) {
      context.store.set(token_key, draw_token());
      context.store.set(secret_key, draw_secret());
    }
    const Run run = shared_run(context, options);
    ServerEnd end = open_server(context.device, hub_of(context, options), run, context.plan.world,
                                server, options);
    context.store.set(endpoint_key(server), end.endpoint);
    return {std::move(end.channel), run.token};
  }

  Connection connect(const RankContext& context, const TransportOptions& options) override {
    const Run run = shared_run(context, options);
    std::vector<std::string> endpoints;
    for (int server = 0; server < context.plan.servers; ++server) {
      const bool beside = context.shared && context.self().server == server;
      endpoints.push_back(beside ? local_endpoint(server)
                                 : context.store.get(endpoint_key(server), options.timeout_s));
    }
    return {connect_worker(context.device, hub_of(context, options), run, context.self().worker,
                           endpoints, options, context.timeline),
            run.token};
  }
};

}  // namespace

std::unique_ptr<Transport> zmq_transport() { return std::make_unique<ZmqTransport>(); }

}  // namespace ringside::ps
