// The movement of messages between simulated ranks. Only the simulated transport includes this
// file.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "core/sim/world.h"
#include "ps/protocol/archive.h"
#include "ps/protocol/transport.h"

namespace ringside::ps {

class SimConnection;
class Io;

/// A message on its way.
struct Parcel {
  SimConnection* connection = nullptr;
  Message message;
  double bytes = 0;     // header and frames, as they travel
  double ready_at = 0;  // when the sender's CPU had finished its part
  /// The shapes of the message's frames and copies of their values. They replace the frames at the
  /// latest when the message arrives at another rank. `values` stays empty if the receiving end has
  /// no values.
  std::vector<FrameShape> shapes{};
  std::vector<std::vector<std::byte>> values{};
};

/// A worker's or a server's end of its connections.
struct End {
  int rank = 0;  // in the run of all stages of a pipeline
  int id = 0;    // number of the worker or of the server
  sim::Place place{};
  bool maps_memory = false;  // its messages go through shared memory where they can
  Io* io = nullptr;
  bool has_values = false;
  bool open = true;
  std::deque<std::unique_ptr<Parcel>> received{};  // messages that no receive() has returned yet
  std::unique_ptr<sim::Event> changed{};           // a message came, or a peer took a message
};

/// One direction of the connection between two ends. Only one message travels on it at a time.
class SimConnection {
 public:
  SimConnection(End& from, End& to) : from_(from), to_(to) {}

  End& from() const { return from_; }
  End& to() const { return to_; }
  bool within_rank() const { return from_.rank == to_.rank; }
  bool through_memory() const {
    return !within_rank() && from_.maps_memory && to_.maps_memory &&
           from_.place.machine == to_.place.machine;
  }

  /// The number of messages sent that the peer has not taken.
  int under_way() const { return under_way_; }

  /// `bytes` are those of header and frames. Through shared memory the caller has spent the
  /// sender's CPU time before, and the taker spends the receiver's.
  void send(Message message, double bytes);
  /// Notes that the sender's CPU has finished its part of the next message.
  void ready();
  /// Called when the last byte of the travelling message has arrived. Returns the message.
  std::unique_ptr<Parcel> arrive();
  /// Hands a message to the receiving end.
  void deliver(std::unique_ptr<Parcel> parcel);
  /// Notes that the peer has taken a message.
  void taken();
  /// Lets the messages on their way drop all references to the sender's memory.
  void let_go_of_frames();

 private:
  void start_next();

  End& from_;
  End& to_;
  int under_way_ = 0;
  std::deque<std::unique_ptr<Parcel>> parcels_;  // the first parcel travels, if it is ready
  std::size_t ready_ = 0;                        // how many of parcels_, from the first, are ready
};

/// A rank's I/O threads, as services of the world. The first spends the CPU time of sending, the
/// second the CPU time of receiving. The third spends no time: when a message has arrived, it
/// starts the next message on the same connection.
class Io {
 public:
  Io(sim::World& world, int rank, sim::Place place);
  Io(const Io&) = delete;
  Io& operator=(const Io&) = delete;

  /// Blocks until the services run; this takes no simulated time.
  void wait_for_start();
  double now() const { return world_.now(); }

  /// Queues the CPU's part of sending; when it is done the next message of `connection` is ready.
  void prepare(SimConnection& connection, double bytes);
  /// Starts the flow of a message to `receiver`. The message's latency counts from the moment when
  /// it was ready.
  void start(Io& receiver, Parcel& parcel);

 private:
  void run_sending();
  void run_arriving();
  void run_receiving();

  struct Task {
    SimConnection* connection;
    double bytes;
  };

  sim::World& world_;
  sim::Place place_, cpu_;
  std::unique_ptr<sim::Event> started_;
  std::deque<Task> to_send_;
  std::unique_ptr<sim::Event> to_send_changed_;
  std::unique_ptr<sim::Inbox> inbox_;
  std::deque<std::unique_ptr<Parcel>> arrived_;
  std::unique_ptr<sim::Event> arrived_changed_;
};

/// All ends of a world and the connections between them. They live as long as the world, because
/// messages may still be on their way to an end that is closed.
class Wire {
 public:
  /// Makes a new end; blocks as Io::wait_for_start() does.
  End& open(sim::World& world, sim::Place place, int rank, int id, bool has_values,
            bool maps_memory);
  SimConnection& connection(End& from, End& to);

  /// Closes the ends of a rank, which is no more.
  void cut(int rank);

  /// From now on find() finds the server of this rank.
  void announce(End& server);
  /// Blocks until the server of the rank is there and returns its end; null after `timeout_s`.
  End* find(sim::World& world, int rank, double timeout_s);

 private:
  std::map<int, std::unique_ptr<Io>> ios_;  // by rank
  std::vector<std::unique_ptr<End>> ends_;
  std::map<std::pair<End*, End*>, std::unique_ptr<SimConnection>> connections_;
  std::map<int, End*> servers_;  // by rank
  std::unique_ptr<sim::Event> announced_;
};

}  // namespace ringside::ps
