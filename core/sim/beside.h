// Beside: what a device's operations lose while collectives move the device's data.
#pragma once

namespace ringside::sim {

/// Follows when a device computes and when collectives move its data, in seconds of the world's
/// clock, and keeps the time that operations have lost because both happened at once: while
/// collectives take `share` of the device, its operations move at 1 - share of their speed, however
/// many collectives there are. For the actors of one world, which run one at a time.
class Beside {
 public:
  explicit Beside(double share) : share_(share) {}

  void begin_work(double now) { change(working_, 1, now); }
  void end_work(double now) { change(working_, -1, now); }
  void begin_collective(double now) { change(collectives_, 1, now); }
  void end_collective(double now) { change(collectives_, -1, now); }

  /// The work, in seconds at full speed, that the operations since the last call still have to do.
  double take_lost(double now) {
    change(working_, 0, now);
    const double lost = lost_;
    lost_ = 0;
    return lost;
  }

 private:
  void change(int& count, int by, double now) {
    if (working_ > 0 && collectives_ > 0) lost_ += share_ * (now - since_);
    since_ = now;
    count += by;
  }

  const double share_;
  int working_ = 0, collectives_ = 0;
  double since_ = 0;  // the last change
  double lost_ = 0;
};

}  // namespace ringside::sim
