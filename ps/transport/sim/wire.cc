#include "ps/transport/sim/wire.h"

#include <limits>

#include "core/base/error.h"
#include "core/sim/uneven.h"

namespace ringside::ps {
namespace {

constexpr double for_ever = std::numeric_limits<double>::infinity();
constexpr double header_bytes =
    128;  // about the bytes that move for a message whose frames stay in place

/// The place where the I/O threads of a rank run.
sim::Place cpu_of(const sim::ClusterSpec& cluster, sim::Place place) {
  return cluster.device.kind == sim::DeviceKind::cpu ? place : sim::Place{place.machine, -1};
}

/// CPU seconds at one end of a message. Between GPUs of one machine no CPU touches the bytes: a
/// copy engine moves them, and asking the engine takes as long as launching a kernel.
double seconds(const sim::ClusterSpec& cluster, sim::Place from, sim::Place to, double us,
               double us_per_mb, double bytes) {
  const bool by_copy_engine = cluster.device.kind == sim::DeviceKind::gpu &&
                              from.machine == to.machine && from.device >= 0 && to.device >= 0;
  if (by_copy_engine) return device_of(cluster, from.machine).launch_us * 1e-6;
  const sim::MessageSpec& cost = cluster.message;
  if (cost.network_us > 0) {  // messages through shared memory do not come here
    const bool leaves = from.machine != to.machine;
    us = leaves ? cost.network_us : cost.loopback_us;
    us_per_mb = leaves ? cost.network_us_per_mb : cost.loopback_us_per_mb;
  }
  return (us + us_per_mb * bytes * 1e-6) * 1e-6;
}

/// Replaces the message's frames by their shapes and, if there are values, by copies of the values.
/// After that the message refers to no memory of the sender. A second call does
/// nothing, because no frames are left.
void land(Parcel& parcel, bool has_values) {
  for (const Tensor& frame : parcel.message.frames) {
    parcel.shapes.push_back({frame.dtype(), frame.shape()});
    if (!has_values) continue;
    const auto* data = reinterpret_cast<const std::byte*>(frame.data<std::uint8_t>());
    parcel.values.emplace_back(data, data + frame.bytes());
  }
  parcel.message.frames.clear();
}

}  // namespace

void SimConnection::send(Message message, double bytes) {
  ++under_way_;
  auto parcel = std::make_unique<Parcel>(Parcel{this, std::move(message), bytes});
  if (within_rank()) return deliver(std::move(parcel));
  parcels_.push_back(std::move(parcel));
  if (through_memory()) return ready();
  from_.io->prepare(*this, bytes);
}

void SimConnection::ready() {
  parcels_[ready_++]->ready_at = from_.io->now();
  if (ready_ == 1) start_next();
}

void SimConnection::start_next() { from_.io->start(*to_.io, *parcels_.front()); }

std::unique_ptr<Parcel> SimConnection::arrive() {
  std::unique_ptr<Parcel> parcel = std::move(parcels_.front());
  parcels_.pop_front();
  land(*parcel, to_.has_values);
  if (--ready_ > 0) start_next();
  return parcel;
}

void SimConnection::deliver(std::unique_ptr<Parcel> parcel) {
  if (!to_.open) return;
  to_.received.push_back(std::move(parcel));
  to_.changed->notify_all();
}

void SimConnection::taken() {
  --under_way_;
  if (under_way_ == high_water_mark - 1) from_.changed->notify_all();
}

void SimConnection::let_go_of_frames() {
  for (const auto& parcel : parcels_) land(*parcel, to_.has_values);
}

Io::Io(sim::World& world, int rank, sim::Place place)
    : world_(world),
      place_(place),
      cpu_(cpu_of(world.cluster(), place)),
      started_(world.make_event()),
      to_send_changed_(world.make_event()),
      arrived_changed_(world.make_event()) {
  const auto serve = [&](const char* what, void (Io::*run)()) {
    world.spawn(
        fmt::format("{} of rank {}", what, rank), cpu_, [this, run] { (this->*run)(); }, true);
  };
  serve("sending", &Io::run_sending);
  serve("arrivals", &Io::run_arriving);
  serve("receiving", &Io::run_receiving);
}

void Io::wait_for_start() {
  while (!inbox_) started_->wait(for_ever);
}

void Io::prepare(SimConnection& connection, double bytes) {
  to_send_.push_back({&connection, bytes});
  to_send_changed_->notify_all();
}

void Io::start(Io& receiver, Parcel& parcel) {
  const double bytes = parcel.connection->through_memory() ? header_bytes : parcel.bytes;
  world_.post(*receiver.inbox_, place_, bytes, &parcel, now() - parcel.ready_at);
}

void Io::run_sending() {
  const sim::MessageSpec& cost = world_.cluster().message;
  for (;;) {
    while (to_send_.empty()) to_send_changed_->wait(for_ever);
    const Task task = to_send_.front();
    to_send_.pop_front();
    const double spent = seconds(world_.cluster(), place_, task.connection->to().io->place_,
                                 cost.send_us, cost.send_us_per_mb, task.bytes);
    world_.work(cpu_, spent);
    task.connection->ready();
  }
}

/// This loop must not wait for the receiver's CPU, because the next message on a connection starts
/// only after this loop has taken in the previous message.
void Io::run_arriving() {
  inbox_ = world_.make_inbox(place_);
  started_->notify_all();
  for (;;) {
    const auto* parcel = std::any_cast<Parcel*>(*inbox_->receive(for_ever));
    SimConnection& connection = *parcel->connection;
    if (connection.through_memory()) {
      connection.deliver(connection.arrive());
      continue;
    }
    arrived_.push_back(connection.arrive());
    arrived_changed_->notify_all();
  }
}

void Io::run_receiving() {
  const sim::MessageSpec& cost = world_.cluster().message;
  for (;;) {
    while (arrived_.empty()) arrived_changed_->wait(for_ever);
    std::unique_ptr<Parcel> parcel = std::move(arrived_.front());
    arrived_.pop_front();
    SimConnection& connection = *parcel->connection;
    const double spent = seconds(world_.cluster(), connection.from().io->place_, place_,
                                 cost.receive_us, cost.receive_us_per_mb, parcel->bytes);
    world_.work(cpu_, spent);
    connection.deliver(std::move(parcel));
  }
}

End& Wire::open(sim::World& world, sim::Place place, int rank, int id, bool has_values,
                bool maps_memory) {
  auto& io = ios_[rank];
  if (!io) io = std::make_unique<Io>(world, rank, place);
  io->wait_for_start();
  End& end = *ends_.emplace_back(std::make_unique<End>());
  end.rank = rank;
  end.id = id;
  end.place = place;
  end.maps_memory = maps_memory;
  end.io = io.get();
  end.has_values = has_values;
  end.changed = world.make_event();
  return end;
}

SimConnection& Wire::connection(End& from, End& to) {
  auto& connection = connections_[{&from, &to}];
  if (!connection) connection = std::make_unique<SimConnection>(from, to);
  return *connection;
}

void Wire::announce(End& server) {
  servers_[server.rank] = &server;
  if (announced_) announced_->notify_all();
}

void Wire::cut(int rank) {
  for (const auto& end : ends_)
    if (end->rank == rank) end->open = false;
}

End* Wire::find(sim::World& world, int rank, double timeout_s) {
  if (!announced_) announced_ = world.make_event();
  const double deadline = world.now() + timeout_s;
  while (!servers_.contains(rank))
    if (!announced_->wait(deadline - world.now())) return nullptr;
  return servers_[rank];
}

}  // namespace ringside::ps
