#include <string>
#include <utility>

#include "core/base/error.h"
#include "ps/transport/shm/channel.h"
#include "ps/transport/shm/channels.h"

namespace ringside::ps {
namespace {

class ServerChannel : public ShmChannel {
 public:
  ServerChannel(Device& device, const std::shared_ptr<SharedRegion>& region, int server, int worker,
                std::shared_ptr<InProcessQueues> inside, const TransportOptions& options)
      : ShmChannel(device, region, region->server(server), std::move(inside), options),
        server_(server) {
    for (int w = 0; w < region->workers(); ++w) {
      SharedRegion::Lane& lane = region->lane(w, server);
      if (w == worker)
        add_inside_peer(region->worker(w), this->inside().to_server, this->inside().to_worker);
      else
        add_peer(region->worker(w), lane.to_server, lane.to_worker);
    }
  }

  void send(int worker, Message message) override {
    if (!came(worker)) throw Error("server {}: worker {} never connected", server_, worker);
    Peer& to = peer(worker);
    const Kind kind = message.header.kind;
    Outbound outbound = pack(to, std::move(message));
    const bool sent = keep_trying(to, [&] {
      if (to.watch.gone(*to.end))
        throw PeerGone(worker, fmt::format("server {}: worker {} has ended before it received the "
                                           "reply to its {}",
                                           server_, worker, name_of(kind)));
      return offer(to, outbound);
    });
    if (!sent)
      throw Error(
          "server {}: worker {} did not accept the reply to its {} within {} s; raise "
          "train.timeout_s if the worker really computes for that long",
          server_, worker, name_of(kind), options().timeout_s);
  }

  std::string admit_again(int worker, std::int64_t process) override {
    Peer& seat = peer(worker);
    if (!seat.in) return ShmChannel::admit_again(worker, process);  // it is this process
    begin_anew(seat);
    return "shm";
  }

  bool try_send(int worker, Message message) override {
    return came(worker) && try_offer(peer(worker), std::move(message));
  }

 private:
  bool came(int worker) { return worker >= 0 && worker < peers() && peer(worker).came; }

  std::optional<Received> receive_now() override {
    return inbox().next(peers(), [this](int worker) { return take_from(worker); });
  }

  /// The next message of the worker that is not refused.
  std::optional<Received> take_from(int worker) {
    for (;;) {
      const bool newcomer = !peer(worker).came;
      try {
        auto message = take(peer(worker));
        if (!message) return {};
        return Received{worker, std::move(*message)};
      } catch (const Unreadable& error) {
        reject(worker, error.what());
        if (newcomer) throw other_program(server_, worker, error);
      } catch (const Error& error) {
        reject(worker, error.what());
      }
    }
  }

  /// Sends a worker the reason for which its message is refused.
  void reject(int worker, const std::string& cause) {
    Message message;
    message.header.kind = Kind::error;
    message.header.reply = true;
    message.header.text = cause;
    try_send(worker, std::move(message));
  }

  int server_;
};

}  // namespace

std::unique_ptr<Channel> open_server(Device& device, std::shared_ptr<SharedRegion> region,
                                     int server, int worker,
                                     std::shared_ptr<InProcessQueues> inside,
                                     const TransportOptions& options) {
  return std::make_unique<ServerChannel>(device, region, server, worker, std::move(inside),
                                         options);
}

}  // namespace ringside::ps
