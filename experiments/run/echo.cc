#include "experiments/run/echo.h"

#include <time.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/observe/row.h"
#include "ps/wires/host_transport.h"

namespace ringside {
namespace {

constexpr double pause_s = 300e-6;

double processor_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

Echo::Echo(const RankContext& context) : device_(context.device), transport_(ps::host_transport()) {
  const ps::TransportOptions options{.timeout_s = echo_timeout_s};
  connection_ = context.self().server >= 0 ? transport_->listen(context, options)
                                           : transport_->connect(context, options);
}

void Echo::answer(int messages) {
  Tensor answer;
  for (int i = 0; i < messages; ++i) {
    auto received = receive();
    Tensor& frame = received.message.frames.at(0);
    if (!answer || answer.count() != frame.count())
      answer = device_.tensor(frame.shape(), MemoryKind::parameter);
    frame = answer;
    received.message.header.reply = true;
    compute();
    connection_.channel->send(received.peer, std::move(received.message));
  }
}

EchoTimes Echo::ask(std::int64_t count, int messages) {
  const Tensor frame = device_.tensor({count}, MemoryKind::communication);
  device_.kernels().fill({.out = frame, .value = 1});
  std::vector<double> wall, sending, process;
  for (int i = 0; i < messages; ++i) {
    compute();
    ps::Message message;
    message.header.kind = ps::Kind::push_pull;
    message.header.token = connection_.token;
    message.frames.push_back(frame);
    const double begin = device_.clock().now();
    const double thread = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
    const double all = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
    connection_.channel->send(0, std::move(message));
    sending.push_back(processor_seconds(CLOCK_THREAD_CPUTIME_ID) - thread);
    receive();
    process.push_back((processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - all) / 2);
    wall.push_back((device_.clock().now() - begin - pause_s) / 2);
  }
  return {lower_quartile(std::move(wall)), lower_quartile(std::move(sending)),
          lower_quartile(std::move(process))};
}

void Echo::compute() const {
  const double end = device_.clock().now() + pause_s;
  while (device_.clock().now() < end) {
  }
}

ps::Received Echo::receive() {
  auto received = connection_.channel->receive(echo_timeout_s);
  if (!received) throw Error("a timed message did not come back within {} s", echo_timeout_s);
  return std::move(*received);
}

}  // namespace ringside
