#include "ps/transport/zmq/transport.h"

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/plan/worlds.h"
#include "ps/protocol/rendezvous.h"
#include "ps/transport/zmq/channels.h"
#include "ps/transport/zmq/keys.h"

namespace ringside::ps {
namespace {

constexpr const char* secret_key = "ps.secret";
constexpr const char* drawn_key = "ps.keys";

std::shared_ptr<ZmqContext> zmq_context_of(const RankContext& context,
                                           const TransportOptions& options) {
  auto zmq_context =
      context.shared ? context.shared->get<ZmqContext>() : std::make_shared<ZmqContext>();
  zmq_context->use_threads(static_cast<int>(options.io_threads));
  return zmq_context;
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
  const bool worker_here = context.shared && context.self().worker >= 0;
  run.outside = context.plan.world - (worker_here ? 1 : 0);
  run.has_cores = context.plan.world + context.plan.servers <= allowed_cores().value_or(0);
  return run;
}

/// The options as they are carried out. Between hosts servers listen where other hosts reach them,
/// and where the options name no keys, server 0 has drawn some for the run.
TransportOptions settled(const RankContext& context, TransportOptions options) {
  if (!spans_hosts(context.plan)) return options;
  if (options.transport != TransportKind::automatic && options.transport != TransportKind::tcp)
    throw Error(
        "transport '{}' reaches ranks of one host alone, but this run is on several hosts; leave "
        "the transport out, or set it to 'tcp'",
        name_of(options.transport));
  options.transport = TransportKind::tcp;
  if (options.address.empty())
    options.address = context.plan.homes.at(static_cast<std::size_t>(context.rank)).address;
  if (options.keys.empty()) options.drawn_keys = context.store.get(drawn_key, options.timeout_s);
  return options;
}

class ZmqTransport : public Transport {
 public:
  /// Server 0 draws the run's token and its secrets.
  Connection listen(const RankContext& context, const TransportOptions& asked) override {
    const int server = context.self().server;
    if (server == 0) {
      context.store.set(token_key, draw_token());
      context.store.set(secret_key, draw_secret());
      if (spans_hosts(context.plan)) context.store.set(drawn_key, draw_keys(context.plan.world));
    }
    const TransportOptions options = settled(context, asked);
    const Run run = shared_run(context, options);
    ServerEnd end = open_server(context.device, zmq_context_of(context, options), run,
                                context.plan.world, server, options);
    context.store.set(endpoint_key(server), end.endpoint);
    return {std::move(end.channel), run.token};
  }

  Connection connect(const RankContext& context, const TransportOptions& asked) override {
    const TransportOptions options = settled(context, asked);
    const Run run = shared_run(context, options);
    std::vector<std::string> endpoints;
    for (int server = 0; server < context.plan.servers; ++server) {
      const bool colocated = context.shared && context.self().server == server;
      endpoints.push_back(colocated ? local_endpoint(server)
                                    : context.store.get(endpoint_key(server, context.self().worker,
                                                                     process_in_seat(context.plan)),
                                                        options.timeout_s));
    }
    return {connect_worker(context.device, zmq_context_of(context, options), run,
                           context.self().worker, endpoints, options, context.timeline),
            run.token};
  }
};

}  // namespace

std::unique_ptr<Transport> zmq_transport() { return std::make_unique<ZmqTransport>(); }

}  // namespace ringside::ps
