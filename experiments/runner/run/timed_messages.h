// Timed messages between a worker and a server.
#pragma once

#include <cstdint>

#include "core/scheme/rank_context.h"
#include "ps/protocol/transport.h"

namespace ringside::runner {

/// Times of one message of a series.
struct EchoTimes {
  double wall_s = 0;  // from the call of send() until the receiver has the message
  double send_s = 0;  // the sending thread's processor time in send()
};

/// A series of messages. Both ends compute between messages, by default so long that the other end
/// falls asleep, as servers and workers do when they wait in training.
struct EchoSeries {
  int messages = 0;
  std::int64_t count = 0;  // fp32 elements of each
  double pause_s = 300e-6;
};

/// The deadline of every wait for a message.
inline constexpr double echo_timeout_s = 30;

/// One end of a connection of one worker and one server, by the links of the context, which
/// outlives the end.
class Echo {
 public:
  /// Listens if this rank is a server, and else connects to server 0. Blocks until both have come.
  explicit Echo(const RankContext& context);

  /// For the server: answers each message with as many values of its own. Blocks.
  void answer(const EchoSeries& series);
  /// For the worker: sends the messages, each after the answer to the one before. Blocks. Throws
  /// Error if an answer does not come.
  EchoTimes ask(const EchoSeries& series);

 private:
  void compute(double seconds) const;
  ps::Received receive();

  Device& device_;
  std::unique_ptr<ps::Transport> transport_;
  ps::Connection connection_;
};

}  // namespace ringside::runner
