// The wire over Gloo's unbound buffers.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "peer/comm/gloo/gloo_module.h"

namespace ringside::peer {

/// The slot of a Gloo message is made of its lane and its size: ranks that disagree about a size
/// then never match, where Gloo would end the process. A wait of Gloo that times out closes all
/// connections of its direction. So waits have no timeout, and a watching thread aborts those that
/// are given up. The waits within Gloo's own all-reduce cannot be aborted one by one; to end them
/// the thread lets one more wait of each direction time out.
///
/// Two ranks have one connection for each direction. A sender holds the lock of its connection
/// while bytes are copied. If messages arrived on the same connection, Gloo's thread would spin for
/// that lock, for a whole time slice if both threads share a core: stalls of 4 to 14 ms.
class GlooWire : public Wire {
 public:
  explicit GlooWire(const GlooRequest& request);
  ~GlooWire() override;
  TransferPtr send(int peer, Lane lane, std::span<const std::byte> bytes) override;
  TransferPtr receive(int peer, Lane lane, std::span<std::byte> bytes) override;
  TransferPtr all_reduce(DType dtype, std::span<std::byte> array) override;

 private:
  using Buffer = gloo::transport::UnboundBuffer;
  /// A wait under way, which the watching thread looks after.
  struct Watched {
    const std::function<bool()>& give_up;
    std::function<void()> abort;
  };
  class GlooTransfer;
  class GlooSum;
  class Connected;

  void connect(const GlooRequest& request);
  /// Sends every rank its word from `words` (by rank), and expects `own` from each. Throws Error
  /// that names a connection on which another word or none arrives.
  void prove(const std::string& own, const std::vector<std::string>& words, double timeout_s);
  gloo::transport::Context& way(int from, int to) const { return *ways_[from < to ? 0 : 1]; }
  void watch();
  /// Ends all waits: a wait that times out closes all connections of its direction.
  void cut();
  /// Runs `wait`, and `watched.abort` on the watching thread once `watched.give_up` is true.
  bool wait(Watched watched, const std::function<bool()>& wait);

  std::shared_ptr<gloo::transport::Device> device_;
  /// The connections by which values go to higher ranks, and those to lower ranks.
  std::array<std::shared_ptr<gloo::transport::Context>, 2> ways_;
  std::shared_ptr<Connected> connected_;  // ways_[0] for Gloo's collectives, in both directions
  int rank_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Watched> watched_;
  bool asleep_ = false, ending_ = false;
  std::thread watcher_;
};

}  // namespace ringside::peer
