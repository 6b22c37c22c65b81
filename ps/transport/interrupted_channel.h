// A channel whose waits end when the world changes.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/interruption.h"
#include "ps/protocol/channel.h"

namespace ringside::ps {

/// Passes everything on to another channel; receive() throws Error once the interruption is raised,
/// at the latest after `look_every_s`.
class InterruptedChannel : public Channel {
 public:
  /// The interruption outlives the channel.
  InterruptedChannel(std::unique_ptr<Channel> channel, const Interruption& interruption)
      : channel_(std::move(channel)), interruption_(interruption) {}

  void send(int peer, Message message) override {
    interruption_.check();
    channel_->send(peer, std::move(message));
  }
  bool try_send(int peer, Message message) override {
    return channel_->try_send(peer, std::move(message));
  }
  std::optional<Received> receive(double timeout_s) override {
    for (;;) {
      interruption_.check();
      const double nap_s = std::min(timeout_s, look_every_s);
      if (std::optional<Received> received = channel_->receive(nap_s)) return received;
      timeout_s -= nap_s;
      if (timeout_s <= 0) return {};
    }
  }
  std::string admit_again(int peer, std::int64_t process) override {
    return channel_->admit_again(peer, process);
  }
  void check_with(Check check) override { channel_->check_with(std::move(check)); }
  Traffic traffic() const override { return channel_->traffic(); }

 private:
  static constexpr double look_every_s = 0.02;

  std::unique_ptr<Channel> channel_;
  const Interruption& interruption_;
};

}  // namespace ringside::ps
