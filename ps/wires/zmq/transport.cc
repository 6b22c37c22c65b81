#include "ps/wires/zmq/transport.h"

#include <charconv>
#include <random>

#include "core/base/error.h"
#include "ps/wires/zmq/ends.h"

namespace ringside::ps {
namespace {

constexpr const char* token_key = "ps.token";
std::string endpoint_key(int server) { return fmt::format("ps.server.{}", server); }

std::shared_ptr<Hub> hub_of(const RankContext& context) {
  return context.shared ? context.shared->get<Hub>() : std::make_shared<Hub>();
}

/// Draws a random token, by which a run's messages are distinguished from those of other runs. The
/// token need not be secret.
std::uint64_t draw_token() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

std::uint64_t shared_token(const RankContext& context, const TransportOptions& options) {
  const std::string text = context.store.get(token_key, options.timeout_s);
  std::uint64_t token = 0;
  std::from_chars(text.data(), text.data() + text.size(), token, 16);
  return token;
}

class ZmqTransport : public Transport {
 public:
  /// Server 0 draws the run's token.
  Connection listen(const RankContext& context, const TransportOptions& options) override {
    const int server = context.self().server;
    if (server == 0) context.store.set(token_key, fmt::format("{:016x}", draw_token()));
    const std::uint64_t token = shared_token(context, options);
    ServerEnd end = open_server(context.device, hub_of(context), token, server, options);
    context.store.set(endpoint_key(server), end.endpoint);
    return {std::move(end.channel), token};
  }

  Connection connect(const RankContext& context, const TransportOptions& options) override {
    const std::uint64_t token = shared_token(context, options);
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
