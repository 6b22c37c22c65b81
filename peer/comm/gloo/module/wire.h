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

/// A lane and a size make a slot of Gloo, so that ranks that disagree about sizes never meet there:
/// Gloo would end the process. Gloo's waits cannot be divided, for one that runs out of time closes
/// all connections of a way; so they have no end of their own, and a thread that looks after them
/// aborts those that are to be given up. Gloo's all-reduce has waits of its own, which nobody can
/// abort singly: there that thread lets one more wait of each way run out of time.
///
/// Two ranks have a connection for each way. Who sends holds the lock of the connection while bytes
/// are copied, and meanwhile Gloo's thread would poll for what arrives on that connection, for a
/// whole slice of the core if both share one: stalls of 4 to 14 ms.
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
  /// Shows every rank the word by which it knows this group, and expects `own` of all; `words` are
  /// by rank. Throws Error that names a connection on which something else comes, or nothing.
  void prove(const std::string& own, const std::vector<std::string>& words, double timeout_s);
  gloo::transport::Context& way(int from, int to) const { return *ways_[from < to ? 0 : 1]; }
  void watch();
  /// Ends all waits: a wait that runs out of time closes all connections of its way.
  void cut();
  /// Runs `wait`, and `watched.abort` on the watching thread once `watched.give_up` is true.
  bool wait(Watched watched, const std::function<bool()>& wait);

  std::shared_ptr<gloo::transport::Device> device_;
  /// The connections by which values go to higher ranks, and those to lower ranks.
  std::array<std::shared_ptr<gloo::transport::Context>, 2> ways_;
  std::shared_ptr<Connected> connected_;  // the first, as Gloo's collectives see them, both ways
  int rank_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Watched> watched_;
  bool asleep_ = false, ending_ = false;
  std::thread watcher_;
};

}  // namespace ringside::peer
