// Attendance: when a server has heard each of its workers last.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/waiting_time.h"
#include "core/device/device.h"
#include "ps/protocol/channel.h"
#include "ps/protocol/server.h"

namespace ringside::ps {

/// The time of the last message of each worker. For one thread.
class Attendance {
 public:
  /// The channel and the clock outlive this object.
  Attendance(int workers, const Channel& channel, const Clock& clock, double timeout_s);

  /// Longest sleep between two checks with this timeout.
  double nap_s() const;
  void heard(int worker);
  /// Throws Error for a worker that has been silent for too long, while no part of a message came
  /// either. Returns whether a heartbeat to the workers is due.
  bool check(const Server& server);
  /// Whether parts of a long message have come since the last call: workers that wait for its
  /// sender have to be told that it is alive.
  bool parts_came() { return std::exchange(parts_came_, false); }

  bool came(std::size_t worker) const { return workers_[worker].came; }
  std::size_t size() const { return workers_.size(); }

 private:
  struct Worker {
    double last = 0;
    bool came = false;
    bool whole = false;  // a message has come since the link was looked at
    SlowLink link{};
  };
  void look_for_parts(std::size_t w, double now);

  const Channel& channel_;
  const Clock& clock_;
  double timeout_s_;
  WaitingTime waited_;
  double reassured_ = 0;
  bool parts_came_ = false;
  std::vector<Worker> workers_;
};

}  // namespace ringside::ps
