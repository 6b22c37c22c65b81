#include <utility>

#include "core/base/error.h"
#include "ps/transport/shm/channel.h"
#include "ps/transport/shm/channels.h"

namespace ringside::ps {
namespace {

class WorkerChannel : public ShmChannel {
 public:
  WorkerChannel(Device& device, const std::shared_ptr<SharedRegion>& region, int worker, int server,
                std::shared_ptr<InProcessQueues> inside, const TransportOptions& options,
                Timeline& timeline)
      : ShmChannel(device, region, region->worker(worker), std::move(inside), options),
        timeline_(timeline) {
    for (int s = 0; s < region->servers(); ++s) {
      SharedRegion::Lane& lane = region->lane(worker, s);
      if (s == server)
        add_inside_peer(region->server(s), this->inside().to_worker, this->inside().to_server);
      else
        add_peer(region->server(s), lane.to_worker, lane.to_server);
    }
  }

  /// While it is blocked, receives messages. A server that takes no message may have sent an error
  /// with the cause, or may itself be waiting until this worker receives.
  void send(int server, Message message) override {
    Peer& to = peer(server);
    const Kind kind = message.header.kind;
    Outbound outbound = pack(to, std::move(message));
    if (!to.watch.gone(*to.end) && offer(to, outbound)) return;
    const auto span = timeline_.scope(Activity::exposed,
                                      fmt::format("send {} to server {}", name_of(kind), server));
    const bool sent = keep_trying(to, [&] {
      const bool gone = to.watch.gone(*to.end);  // before the look at what the server sent
      inbox().keep_all(peers(), [&](int number) { return take_from(number); });
      if (gone)
        throw Error("server {} has ended before it received a {} message", server, name_of(kind));
      return offer(to, outbound);
    });
    if (!sent)
      throw Error(
          "server {} did not accept a {} message within {} s; raise train.timeout_s if the server "
          "is really busy for that long",
          server, name_of(kind), options().timeout_s);
  }

  bool try_send(int server, Message message) override {
    return try_offer(peer(server), std::move(message));
  }

 private:
  std::optional<Received> receive_now() override {
    return inbox().next(peers(), [this](int server) { return take_from(server); });
  }

  std::optional<Received> take_from(int server) {
    auto message = take(peer(server));
    if (!message) return {};
    return Received{server, std::move(*message)};
  }

  /// A server ends when all workers are done. So a worker that still waits when the server has
  /// ended would wait for ever.
  void check_peers() override {
    for (int server = 0; server < peers(); ++server)
      if (is_over(peer(server)))
        throw Error("server {} has ended, and this worker still waits for messages", server);
  }

  Timeline& timeline_;
};

}  // namespace

std::unique_ptr<Channel> connect_worker(Device& device, std::shared_ptr<SharedRegion> region,
                                        int worker, int server,
                                        std::shared_ptr<InProcessQueues> inside,
                                        const TransportOptions& options, Timeline& timeline) {
  return std::make_unique<WorkerChannel>(device, region, worker, server, std::move(inside), options,
                                         timeline);
}

}  // namespace ringside::ps
