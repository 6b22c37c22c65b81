// A server with a thread, and workers that know its run, for tests with outsiders.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "core/device/cpu/cpu_device.h"
#include "ps/transport/zmq/channels.h"
#include "tests/ps/messages.h"

namespace ringside::testing {

constexpr double patience_s = 20;
constexpr int crowd = 300;    // strangers of one sort
constexpr int at_once = 100;  // more of them would need more files than a process may open
inline const ps::Run run{.token = 42, .secret = "only workers know it"};

/// A server that receives on a thread of its own, and counts messages by worker.
class Host {
 public:
  explicit Host(ps::TransportOptions options, const ps::Run& its_run = run)
      : device_(make_cpu_device(1)), end_(open(options, its_run)) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested())
        if (const auto received = end_.channel->receive(0.01)) {
          ++heard_.at(static_cast<std::size_t>(received->peer));
          end_.channel->try_send(received->peer, {ps::reply_to(received->message.header), {}});
        }
    });
  }
  const std::string& endpoint() const { return end_.endpoint; }
  int heard(std::size_t worker) const { return heard_.at(worker); }
  /// Bytes of all messages that were decoded. Ends the thread.
  std::int64_t decoded() {
    thread_ = {};
    return end_.channel->traffic().received;
  }

 private:
  ps::ServerEnd open(const ps::TransportOptions& options, const ps::Run& its_run) {
    return ps::open_server(*device_, std::make_shared<ps::ZmqContext>(), its_run, 2, 0, options);
  }
  std::unique_ptr<Device> device_;
  ps::ServerEnd end_;
  std::array<std::atomic<int>, 2> heard_{};
  std::jthread thread_;
};

/// A worker that knows the run.
class Guest {
 public:
  Guest(const Host& host, int worker, const ps::TransportOptions& options)
      : worker_(worker),
        channel_(ps::connect_worker(*device_, std::make_shared<ps::ZmqContext>(), run, worker,
                                    {host.endpoint()}, options, timeline_)) {}
  /// Sends a message and waits for an answer.
  bool is_answered() {
    channel_->send(0, message_of(run.token, ps::Kind::alive, worker_, 0));
    return channel_->receive(patience_s).has_value();
  }

 private:
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Timeline timeline_{*device_};
  int worker_;
  std::unique_ptr<ps::Channel> channel_;
};

}  // namespace ringside::testing
