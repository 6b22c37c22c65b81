// World: a simulated cluster in virtual time, with actors that compute and communicate in it.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/shared.h"
#include "core/sim/cluster.h"

namespace ringside::sim {

/// A device of a machine, or its host (the CPU).
struct Place {
  int machine = 0;
  int device = -1;  // within the machine; -1: the host
  bool operator==(const Place&) const = default;
};

/// Work or a flow under way. Its end does not stop it; the end of the actor that started it stops
/// work, and not a flow.
class Job {
 public:
  virtual ~Job() = default;
  /// Blocks the calling actor until it is over.
  virtual void wait() = 0;
};
using JobPtr = std::unique_ptr<Job>;

/// What actors wait for: notify_all() wakes those that wait now.
class Event {
 public:
  virtual ~Event() = default;
  virtual void notify_all() = 0;
  /// False after `timeout_s` of virtual time without a call of notify_all().
  virtual bool wait(double timeout_s) = 0;
};

/// Where messages arrive, each when its last byte does; in order for each sender.
class Inbox {
 public:
  virtual ~Inbox() = default;
  /// The next message; none after `timeout_s` of virtual time (0: does not wait).
  virtual std::optional<std::any> receive(double timeout_s) = 0;
};

/// A cluster and its clock, on SimGrid. Flows share links, and work shares cores, evenly among
/// those that use them at a time (max-min fairness). Actors run one at a time, on one thread; who
/// blocks lets others run. They must not block in any other way. The same calls give the same
/// times to the last bit. SimGrid knows one world a process at a time, and its clock goes on from
/// one to the next: times of later ones are the first one's to rounding only.
class World {
 public:
  virtual ~World() = default;

  virtual const ClusterSpec& cluster() const = 0;
  /// What actors find each other by: one object of each type for the whole world.
  virtual Shared& shared() = 0;

  /// Starts an actor, now or when run() is called. A `service` ends with the last actor that is
  /// none, wherever it is.
  virtual void spawn(const std::string& name, Place place, std::function<void()> body,
                     bool service = false) = 0;
  /// Blocks until all actors have ended; once a world. Throws the first error that left an actor,
  /// or Error that names the actors that would wait for ever.
  virtual void run() = 0;

  /// Seconds of virtual time since the world was made.
  virtual double now() const = 0;

  // ---- for actors

  /// `seconds` of one core of `place`, longer where actors share it.
  virtual void work(Place place, double seconds) = 0;
  virtual JobPtr start_work(Place place, double seconds) = 0;
  virtual void sleep(double seconds) = 0;
  /// `bytes` on their way, at the rate that the links between the places leave them, after their
  /// latency. Between a place and itself: through its memory (pcie of a cpu), or at once.
  virtual JobPtr start_flow(Place from, Place to, double bytes) = 0;
  /// Latency of the links between two places, in seconds.
  virtual double latency(Place from, Place to) = 0;

  virtual std::unique_ptr<Event> make_event() = 0;
  /// For the calling actor, which alone may receive from it, at `place`.
  virtual std::unique_ptr<Inbox> make_inbox(Place place) = 0;
  /// Sends without blocking; the flow begins now. `inbox` must outlive the message's way. Of the
  /// latency, `head_start` seconds are over already: those of a message that waited behind another.
  virtual void post(Inbox& inbox, Place from, double bytes, std::any message,
                    double head_start = 0) = 0;
};

/// Throws Error that says what to install if this build has no SimGrid.
std::unique_ptr<World> make_world(const ClusterSpec& cluster);
/// Throws that error, or does nothing.
void require_simgrid();

}  // namespace ringside::sim
