// CommComputeContention: the slowdown of a device's operations while collectives move its data.
#pragma once

namespace ringside::sim {

/// Tracks when a device computes and when collectives move its data, in seconds of the world's
/// clock. While collectives take `share` of the device, its operations move at 1 - share of their
/// speed, however many collectives there are. For the actors of one world, which run one at a time.
class CommComputeContention {
 public:
  explicit CommComputeContention(double share) : share_(share) {}

  void begin_work(double now) { change(working_, 1, now); }
  /// Returns the seconds in which the device makes up for what the work has lost to collectives.
  /// This assumes that collectives that are under way now go on for this time, and that no others
  /// begin.
  double end_work(double now) {
    change(working_, -1, now);
    const double lost = lost_;
    lost_ = 0;
    return collectives_ > 0 ? lost / (1 - share_) : lost;
  }
  void begin_collective(double now) { change(collectives_, 1, now); }
  void end_collective(double now) { change(collectives_, -1, now); }

 private:
  void change(int& count, int by, double now) {
    if (working_ > 0 && collectives_ > 0) lost_ += share_ * (now - since_);
    since_ = now;
    count += by;
  }

  const double share_;
  int working_ = 0, collectives_ = 0;
  double since_ = 0;  // the last change
  double lost_ = 0;   // the work, in seconds at full speed, that is left to do
};

}  // namespace ringside::sim
