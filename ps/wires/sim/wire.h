// What moves messages between simulated ranks; nothing but the simulated transport includes it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "core/sim/world.h"
#include "ps/protocol/archive.h"
#include "ps/protocol/transport.h"

namespace ringside::ps {

class Line;
class Io;

/// A message on its way.
struct Parcel {
  Line* line = nullptr;
  Message message;
  double bytes = 0;     // header and frames, as they travel
  double ready_at = 0;  // when the sender's CPU was done with it
  /// What becomes of the frames where they arrive; values only where there are any.
  std::vector<FrameShape> shapes{};
  std::vector<std::vector<std::byte>> values{};
};

/// A worker's or a server's end.
struct End {
  int rank = 0;
  int id = 0;  // of the worker, of the server
  Io* io = nullptr;
  bool has_values = false;
  bool open = true;
  std::deque<std::unique_ptr<Parcel>> received{};  // that nobody has taken yet
  std::unique_ptr<sim::Event> changed{};           // a message came, or a peer took one
};

/// One direction between two ends: a connection, on which one message travels after the other.
class Line {
 public:
  Line(End& from, End& to) : from_(from), to_(to) {}

  End& from() const { return from_; }
  End& to() const { return to_; }
  bool within_rank() const { return from_.rank == to_.rank; }

  /// Messages sent that the peer has not taken.
  int under_way() const { return under_way_; }

  void send(Message message, double bytes);
  /// The sender's CPU is done with the next message.
  void ready();
  /// The last byte of the message that travels is there. Returns it.
  std::unique_ptr<Parcel> arrive();
  /// Hands a message to the receiving end.
  void deliver(std::unique_ptr<Parcel> parcel);
  /// The peer has taken a message.
  void taken();
  /// Messages on their way keep nothing of the sender's memory any more.
  void let_go_of_frames();

 private:
  void start_next();

  End& from_;
  End& to_;
  int under_way_ = 0;
  std::deque<std::unique_ptr<Parcel>> parcels_;  // the first one travels, if it is ready
  std::size_t ready_ = 0;                        // of parcels_, the first ones
};

/// A rank's I/O threads, as services of the world: one spends the CPU's part of sending, one that
/// of receiving; a third one spends nothing and has the next message of a line follow the one that
/// came.
class Io {
 public:
  Io(sim::World& world, int rank, sim::Place place);
  Io(const Io&) = delete;
  Io& operator=(const Io&) = delete;

  /// Blocks until messages can come, for a moment of the simulator and not of its time.
  void wait_for_start();
  double now() const { return world_.now(); }

  /// Has the CPU's part of sending done in its turn; then the next message of `line` is ready.
  void prepare(Line& line, double bytes);
  /// Starts the flow of a message to `receiver`, whose latency began when it was ready.
  void start(Io& receiver, Parcel& parcel);

 private:
  void run_sending();
  void run_arriving();
  void run_receiving();

  struct Task {
    Line* line;
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

/// All ends of a world and what is between them, for as long as the world lives: an end that is
/// closed may still be on the way of a message.
class Wire {
 public:
  /// A new end; blocks as Io::wait_for_start().
  End& open(sim::World& world, sim::Place place, int rank, int id, bool has_values);
  Line& line(End& from, End& to);

  /// Server `id` may be found.
  void announce(End& server);
  /// Blocks until server `id` is there; null after `timeout_s`.
  End* find(sim::World& world, int id, double timeout_s);

 private:
  std::map<int, std::unique_ptr<Io>> ios_;  // by rank
  std::vector<std::unique_ptr<End>> ends_;
  std::map<std::pair<End*, End*>, std::unique_ptr<Line>> lines_;
  std::map<int, End*> servers_;
  std::unique_ptr<sim::Event> announced_;
};

}  // namespace ringside::ps
