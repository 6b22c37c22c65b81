// World: a simulated cluster in virtual time, with actors that compute and communicate in it.
#pragma once

#include <any>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/shared.h"
#include "core/sim/cluster.h"

namespace ringside::sim {

/// A device of a machine, or the machine's host (its CPU).
struct Place {
  int machine = 0;
  int device = -1;  // index within the machine; -1: the host
  bool operator==(const Place&) const = default;
};

/// Work or a flow under way. Destroying the Job stops neither of them. When an actor ends, the work
/// that it started stops, but the flows that it started go on.
class Job {
 public:
  virtual ~Job() = default;
  /// Blocks the calling actor until the work or flow is over.
  virtual void wait() = 0;
};
using JobPtr = std::unique_ptr<Job>;

/// A timeout that never comes.
inline constexpr double for_ever = std::numeric_limits<double>::infinity();
/// A wait counts as over when at most this many seconds are left, because the world's clock rounds.
inline constexpr double moment = 1e-9;

/// Actors wait for an event; notify_all() wakes all actors that are waiting at that moment.
class Event {
 public:
  virtual ~Event() = default;
  virtual void notify_all() = 0;
  /// Blocks the calling actor. Returns false if `timeout_s` of virtual time passes without a
  /// notify_all().
  virtual bool wait(double timeout_s) = 0;
};

/// Receives messages. A message arrives with its last byte; those of one sender arrive in the order
/// in which they were sent.
class Inbox {
 public:
  virtual ~Inbox() = default;
  /// Returns the next message, or nothing after `timeout_s` of virtual time. With 0 it does not
  /// wait.
  virtual std::optional<std::any> receive(double timeout_s) = 0;
};

/// A cluster and its clock, simulated by SimGrid. Flows share links, and work shares cores, evenly
/// at every moment (max-min fairness). Actors run one at a time on one thread; an actor that blocks
/// in a call of this class lets others run, and it must not block in any other way. In the first
/// world of a process, the same calls give the same times to the last bit. A process can have one
/// world at a time. SimGrid's clock continues from one world to the next, so times in later worlds
/// equal those in the first only up to rounding.
class World {
 public:
  virtual ~World() = default;

  virtual const ClusterSpec& cluster() const = 0;
  /// The objects through which actors find each other: one of each type for the whole world.
  virtual Shared& shared() = 0;

  /// Starts an actor, at once or when run() is called. A `service` is stopped when all actors that
  /// are not services have ended.
  virtual void spawn(const std::string& name, Place place, std::function<void()> body,
                     bool service = false) = 0;
  /// Blocks until all actors have ended. May be called once. Throws the first error that the body
  /// of an actor threw, or Error that names the actors that would wait for ever.
  virtual void run() = 0;

  /// Seconds of virtual time since the world was made.
  virtual double now() const = 0;

  // ---- The functions below are for actors.

  /// Computes for `seconds` on one core of `place`, longer while others share the cores. work()
  /// blocks the calling actor, start_work() does not. work() on several cores gets, while others
  /// compute there too, its even share of all cores, and takes longer accordingly. For the last
  /// `memory` of its seconds work() also needs all of the memory bandwidth that the cores of a
  /// machine share, and takes longer while other work of the machine needs it too.
  virtual void work(Place place, double seconds, std::int64_t cores = 1, double memory = 0) = 0;
  virtual JobPtr start_work(Place place, double seconds) = 0;
  virtual void sleep(double seconds) = 0;
  /// Starts a flow of `bytes`. After the latency of the links between the places, the flow moves at
  /// the rate that other flows on these links leave it. A flow from a place to itself goes through
  /// memory (ClusterSpec::pcie) if the cluster's devices are CPUs; otherwise it needs no time.
  virtual JobPtr start_flow(Place from, Place to, double bytes) = 0;
  /// Starts to write `bytes` from the memory of a machine's host to the storage of checkpoints, or
  /// to read as many (ClusterSpec::storage). Throws Error if the cluster does not say how fast that
  /// is.
  virtual JobPtr start_storage(int machine, double bytes) = 0;
  /// Latency of the links between two places, in seconds.
  virtual double latency(Place from, Place to) = 0;

  virtual std::unique_ptr<Event> make_event() = 0;
  /// Makes an inbox at `place`. Only the calling actor may receive from it.
  virtual std::unique_ptr<Inbox> make_inbox(Place place) = 0;
  /// Sends a message without blocking; the flow begins now. `inbox` must live until the message
  /// arrives. `head_start` seconds of the latency are skipped: they passed while the message waited
  /// behind another.
  virtual void post(Inbox& inbox, Place from, double bytes, std::any message,
                    double head_start = 0) = 0;
};

/// Throws Error that says what to install if this build has no SimGrid.
std::unique_ptr<World> make_world(const ClusterSpec& cluster);
/// Throws the same Error as make_world() if this build has no SimGrid; otherwise does nothing.
void require_simgrid();

}  // namespace ringside::sim
