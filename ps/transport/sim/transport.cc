#include "ps/transport/sim/transport.h"

#include <cstring>

#include "core/base/error.h"
#include "core/device/sim/sim_device.h"
#include "core/plan/mesh.h"
#include "ps/protocol/inbox.h"
#include "ps/transport/sim/wire.h"

namespace ringside::ps {
namespace {

/// The token distinguishes the messages of different runs. A simulated world has only the ranks of
/// one run, so any number will do.
constexpr std::uint64_t token = 1;

/// Ignores check_with(): all ranks of a simulated world are threads of one program, so no message
/// comes from a stranger. What a real server refuses before it takes the frames, a simulated one
/// refuses when it handles the message.
class SimChannel : public Channel {
 public:
  SimChannel(sim::SimDevice& device, Wire& wire, End& end, TransportOptions options)
      : device_(device), wire_(wire), end_(end), options_(std::move(options)) {}
  ~SimChannel() override {
    end_.open = false;
    end_.received.clear();
    for (const auto& [peer, connection] : connections_) connection->let_go_of_frames();
  }
  SimChannel(const SimChannel&) = delete;
  SimChannel& operator=(const SimChannel&) = delete;

  void send(int peer, Message message) override {
    device_.catch_up();
    SimConnection& connection = connection_to(peer, message.header.kind);
    for (const Tensor& frame : message.frames)
      if (static_cast<std::int64_t>(frame.bytes()) > options_.max_frame_bytes)
        throw Error("a {} has a frame of {} bytes; at most {} are allowed",
                    name_of(message.header.kind), frame.bytes(), options_.max_frame_bytes);
    if (!takes(connection)) wait_until_it_takes(connection, message.header.kind);
    const double bytes = count(connection, message);
    const sim::MessageSpec& cost = device_.world().cluster().message;
    spend(connection, cost.send_us, cost.send_us_per_mb, bytes);
    connection.send(std::move(message), bytes);
  }

  bool try_send(int peer, Message message) override {
    device_.catch_up();
    SimConnection* connection = find_connection(peer);
    if (!end_.open || !connection || !takes(*connection)) return false;
    // A last message takes no processor time, because this end would have to wait for it.
    const double bytes = count(*connection, message);
    connection->send(std::move(message), bytes);
    return true;
  }

  std::optional<Received> receive(double timeout_s) override {
    device_.catch_up();
    wait_for_change(timeout_s, [&] { return !inbox_.empty() || !end_.received.empty(); });
    return inbox_.next(1, [this](int) { return receive_now(); });
  }

  Traffic traffic() const override { return traffic_; }

 protected:
  static bool takes(const SimConnection& connection) {
    return connection.under_way() < high_water_mark;
  }

  /// Blocks until `done()` is true or the timeout is over. Tests `done()` again when a message
  /// arrives and when a peer takes a message.
  template <class Done>
  void wait_for_change(double timeout_s, Done done) {
    const double deadline = device_.world().now() + timeout_s;
    while (!done())
      if (!end_.changed->wait(deadline - device_.world().now())) return;
  }

  std::optional<Received> receive_now() {
    if (end_.received.empty()) return {};
    const std::unique_ptr<Parcel> parcel = std::move(end_.received.front());
    end_.received.pop_front();
    SimConnection& connection = *parcel->connection;
    connection.taken();
    const sim::MessageSpec& cost = device_.world().cluster().message;
    spend(connection, cost.receive_us, cost.receive_us_per_mb, parcel->bytes);
    traffic_.received += static_cast<std::int64_t>(parcel->bytes);
    if (!find_connection(connection.from().id))
      add_connection(connection.from().id, connection.from());
    for (std::size_t i = 0; i < parcel->shapes.size(); ++i) {
      const FrameShape& shape = parcel->shapes[i];
      Tensor frame = device_.tensor(shape.shape, MemoryKind::communication, shape.dtype);
      if (!parcel->values.empty() && frame.bytes() > 0)
        std::memcpy(frame.data<std::uint8_t>(), parcel->values[i].data(), frame.bytes());
      parcel->message.frames.push_back(std::move(frame));
    }
    return Received{connection.from().id, std::move(parcel->message)};
  }

  void add_connection(int peer, End& to) { connections_[peer] = &wire_.connection(end_, to); }
  SimConnection* find_connection(int peer) const {
    const auto connection = connections_.find(peer);
    return connection == connections_.end() ? nullptr : connection->second;
  }
  Inbox& inbox() { return inbox_; }
  End& end() const { return end_; }
  const TransportOptions& options() const { return options_; }
  const Clock& clock() const { return device_.clock(); }

 private:
  /// Returns the connection to the peer. Throws Error if the peer never connected or has ended.
  virtual SimConnection& connection_to(int peer, Kind kind) = 0;
  virtual void wait_until_it_takes(SimConnection& connection, Kind kind) = 0;

  /// Counts the message as sent, and returns its bytes: 0 within a rank.
  double count(const SimConnection& connection, const Message& message) {
    if (connection.within_rank()) return 0;
    double bytes = static_cast<double>(encode(message).size());
    for (const Tensor& frame : message.frames) bytes += static_cast<double>(frame.bytes());
    traffic_.sent += static_cast<std::int64_t>(bytes);
    return bytes;
  }

  /// This end's own time on its core for a message through shared memory. Threads of one rank pass
  /// each other the message itself, but wake each other up as ends of a CPU's ranks do.
  void spend(const SimConnection& connection, double us, double us_per_mb, double bytes) {
    sim::World& world = device_.world();
    if (connection.through_memory() ||
        (connection.within_rank() && sim::shares_memory(world.cluster())))
      world.work(device_.place(), 1e-6 * (us + us_per_mb * bytes * 1e-6));
  }

  sim::SimDevice& device_;
  Wire& wire_;
  End& end_;
  TransportOptions options_;
  std::map<int, SimConnection*> connections_;  // to peers
  Traffic traffic_;
  Inbox inbox_;
};

class WorkerChannel : public SimChannel {
 public:
  WorkerChannel(sim::SimDevice& device, Wire& wire, End& end, const TransportOptions& options,
                const std::vector<End*>& servers, Timeline& timeline)
      : SimChannel(device, wire, end, options), timeline_(timeline) {
    for (End* server : servers) add_connection(server->id, *server);
  }

 private:
  SimConnection& connection_to(int server, Kind) override {
    if (SimConnection* connection = find_connection(server)) return *connection;
    throw Error("worker {}: there is no server {}", end().id, server);
  }

  /// Receives messages while it waits. A server that takes no message may have sent an error with
  /// the cause, or may itself be waiting until this worker receives.
  void wait_until_it_takes(SimConnection& connection, Kind kind) override {
    const double deadline = clock().now() + options().timeout_s;
    const auto span = timeline_.scope(
        Activity::exposed, fmt::format("send {} to server {}", name_of(kind), connection.to().id));
    while (!takes(connection)) {
      wait_for_change(deadline - clock().now(),
                      [&] { return takes(connection) || !end().received.empty(); });
      const bool heard = inbox().keep_all(1, [this](int) { return receive_now(); });
      if (!heard && !takes(connection))
        throw Error(
            "server {} did not accept a {} message within {} s; raise train.timeout_s if the "
            "server is really busy for that long",
            connection.to().id, name_of(kind), options().timeout_s);
    }
  }

  Timeline& timeline_;
};

class ServerChannel : public SimChannel {
 public:
  using SimChannel::SimChannel;

 private:
  SimConnection& connection_to(int worker, Kind kind) override {
    SimConnection* connection = find_connection(worker);
    if (!connection) throw Error("server {}: worker {} never connected", end().id, worker);
    if (!connection->to().open)
      throw PeerGone(worker, fmt::format("server {}: worker {} has ended before it received the "
                                         "reply to its {}",
                                         end().id, worker, name_of(kind)));
    return *connection;
  }

  void wait_until_it_takes(SimConnection& connection, Kind kind) override {
    wait_for_change(options().timeout_s, [&] { return takes(connection); });
    if (!takes(connection))
      throw Error(
          "server {}: worker {} did not accept the reply to its {} within {} s; raise "
          "train.timeout_s if the worker really computes for that long",
          end().id, connection.to().id, name_of(kind), options().timeout_s);
  }
};

class SimTransport : public Transport {
 public:
  Connection listen(const RankContext& context, const TransportOptions& options) override {
    sim::SimDevice& device = sim::sim_device(context.device);
    device.catch_up();
    const auto wire = device.world().shared().get<Wire>();
    End& end = open(context, *wire, device, context.self().server, options);
    auto channel = std::make_unique<ServerChannel>(device, *wire, end, options);
    wire->announce(end);
    return {std::move(channel), token};
  }

  Connection connect(const RankContext& context, const TransportOptions& options) override {
    sim::SimDevice& device = sim::sim_device(context.device);
    device.catch_up();
    const auto wire = device.world().shared().get<Wire>();
    const double deadline = device.world().now() + options.timeout_s;
    std::vector<End*> servers;
    for (const RankPlan& rank : context.plan.ranks) {
      if (rank.server < 0) continue;
      End* server = wire->find(device.world(), rank_in_whole(context.plan, rank.rank),
                               deadline - device.world().now());
      if (!server)
        throw Error("server {} did not listen within {} s", rank.server, options.timeout_s);
      servers.push_back(server);
    }
    End& end = open(context, *wire, device, context.self().worker, options);
    return {std::make_unique<WorkerChannel>(device, *wire, end, options, servers, context.timeline),
            token};
  }

 private:
  static End& open(const RankContext& context, Wire& wire, sim::SimDevice& device, int id,
                   const TransportOptions& options) {
    // Servers and workers of a run on several hosts reach each other in one way (ps/transport/zmq).
    const bool maps_memory = (options.transport == TransportKind::automatic ||
                              options.transport == TransportKind::shm) &&
                             sim::shares_memory(device.world().cluster()) &&
                             !spans_hosts(context.plan);
    return wire.open(device.world(), device.place(), rank_in_whole(context.plan, context.rank), id,
                     device.has_values(), maps_memory);
  }
};

}  // namespace

void cut_simulated(sim::World& world, int rank) { world.shared().get<Wire>()->cut(rank); }

std::unique_ptr<Transport> sim_transport() { return std::make_unique<SimTransport>(); }

}  // namespace ringside::ps
