#include "experiments/runner/run/timed_messages.h"

#include <time.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/observe/run_record.h"

namespace ringside::runner {
namespace {

/// Seconds of processor time that this thread has used.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

Echo::Echo(const RankContext& context)
    : device_(context.device), transport_(context.links.transport<ps::Transport>()) {
  const ps::TransportOptions options{.timeout_s = echo_timeout_s};
  connection_ = context.self().server >= 0 ? transport_->listen(context, options)
                                           : transport_->connect(context, options);
}

void Echo::answer(const EchoSeries& series) {
  const Tensor answer = device_.tensor({series.count}, MemoryKind::parameter);
  for (int i = 0; i < series.messages; ++i) {
    auto received = receive();
    received.message.frames.at(0) = answer;
    received.message.header.reply = true;
    compute(series.pause_s);
    connection_.channel->send(received.peer, std::move(received.message));
  }
}

EchoTimes Echo::ask(const EchoSeries& series) {
  const Tensor frame = device_.tensor({series.count}, MemoryKind::communication);
  device_.kernels().fill({.out = frame, .value = 1});
  std::vector<double> wall, sending;
  for (int i = 0; i < series.messages; ++i) {
    compute(series.pause_s);
    ps::Message message;
    message.header.kind = ps::Kind::push_pull;
    message.header.token = connection_.token;
    message.frames.push_back(frame);
    const double begin = device_.clock().now(), cpu = thread_seconds();
    connection_.channel->send(0, std::move(message));
    sending.push_back(thread_seconds() - cpu);
    receive();
    wall.push_back((device_.clock().now() - begin - series.pause_s) / 2);
  }
  return {lower_quartile(std::move(wall)), lower_quartile(std::move(sending))};
}

void Echo::compute(double seconds) const {
  const double end = device_.clock().now() + seconds;
  while (device_.clock().now() < end) {
  }
}

ps::Received Echo::receive() {
  auto received = connection_.channel->receive(echo_timeout_s);
  if (!received) throw Error("a timed message did not come back within {} s", echo_timeout_s);
  return std::move(*received);
}

}  // namespace ringside::runner
