// WorkerFailures: a server's handling of workers whose processes end during the run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/scheme/rank_context.h"
#include "ps/protocol/channel.h"
#include "ps/protocol/greeting.h"
#include "ps/protocol/server.h"

namespace ringside::ps {

/// Receives messages, sends a server's replies, and tells the server which workers the launcher has
/// lost (RunPlan::expendable). Where their seats are taken again, it lets new processes connect.
/// Without expendable workers it only passes messages on.
class WorkerFailures {
 public:
  /// All arguments outlive this object.
  WorkerFailures(const RankContext& context, Channel& channel, Server& server,
                 Greetings& greetings);

  /// As Channel::receive(), but if an expendable worker is gone, returns nothing and keeps the
  /// error as send() does.
  std::optional<Received> receive(double timeout_s);
  /// Sends the reply. If an expendable worker cannot be reached, the error is kept: the launcher
  /// may be about to report that the worker is lost.
  void send(Reply reply);
  /// Asks the launcher, at most once in `pause_s`, which workers are lost. Throws an error that
  /// send() or receive() kept if the launcher does not report its worker as lost in time.
  void look(double pause_s);

 private:
  struct Unsent {
    double since = 0;
    std::string error{};
  };
  void keep(int worker, const std::string& error);
  void open_seat(int worker);
  double now() const { return context_.device.clock().now(); }

  const RankContext& context_;
  Channel& channel_;
  Server& server_;
  Greetings& greetings_;
  bool seats_are_taken_again_;
  double looked_ = 0;
  std::vector<std::int64_t> processes_;  // by worker: the number of the one in its seat
  std::map<int, Unsent> unsent_;         // by worker
};

}  // namespace ringside::ps
