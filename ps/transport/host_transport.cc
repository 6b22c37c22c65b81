#include "ps/transport/host_transport.h"

#include "ps/transport/interrupted_channel.h"
#include "ps/transport/shm/transport.h"
#include "ps/transport/zmq/transport.h"

namespace ringside::ps {
namespace {

class HostTransport : public Transport {
 public:
  Connection listen(const RankContext& context, const TransportOptions& options) override {
    return interrupted(context, chosen(context, options).listen(context, options));
  }
  Connection connect(const RankContext& context, const TransportOptions& options) override {
    return interrupted(context, chosen(context, options).connect(context, options));
  }

 private:
  /// The waits of an elastic run end when its world changes.
  static Connection interrupted(const RankContext& context, Connection connection) {
    if (context.interruption)
      connection.channel = std::make_unique<InterruptedChannel>(std::move(connection.channel),
                                                                *context.interruption);
    return connection;
  }
  Transport& chosen(const RankContext& context, const TransportOptions& options) {
    const bool through_memory =
        (options.transport == TransportKind::shm && !spans_hosts(context.plan)) ||
        (options.transport == TransportKind::automatic && shares_memory(context.device) &&
         !spans_hosts(context.plan));
    return through_memory ? *shm_ : *zmq_;
  }

  std::unique_ptr<Transport> shm_ = shm_transport(), zmq_ = zmq_transport();
};

}  // namespace

std::unique_ptr<Transport> host_transport() { return std::make_unique<HostTransport>(); }

}  // namespace ringside::ps
