// The common part of a shared-memory channel's two ends. Only their sources include this file.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/waiting_time.h"
#include "core/device/device.h"
#include "core/shm/peer_memory.h"
#include "ps/protocol/inbox.h"
#include "ps/protocol/transport.h"
#include "ps/transport/shm/in_process_queue.h"
#include "ps/transport/shm/shared_region.h"

namespace ringside::ps {

/// A message that can be offered to a peer again and again.
struct Outbound {
  Message message;
  std::vector<std::byte> header;  // encoded, unless the message stays within the process
};

/// The other end of one connection. Either the rings are set or, for a peer of the same rank, the
/// queues.
struct Peer {
  int number = 0;  // of the worker or the server
  SharedRegion::End* end = nullptr;
  Ring *in = nullptr, *out = nullptr;
  InProcessQueue *queue_in = nullptr, *queue_out = nullptr;
  EndWatch watch{};
  std::int32_t process = 0;  // that owns the frames' memory; 0 before the first message
  bool came = false;         // has sent a message
  bool broken = false;       // what it wrote cannot be read any further
  /// Frames that the peer may still read, by the number of the message's release word.
  std::vector<std::vector<Tensor>> held{};
  std::vector<std::uint32_t> in_use{}, free{};  // release words
  /// Of the other end's present process. What it sent may outlive it, but not set release words for
  /// the process that comes next.
  std::shared_ptr<void> process_lives{};
};

/// Frames in the symmetric heap are read where they lie; other frames are copied there first. The
/// receiver sets a release word in its ring when it has dropped the last view of a message's
/// frames; the sender then releases them in a later call, or when the channel is destroyed.
class ShmChannel : public Channel {
 public:
  std::optional<Received> receive(double timeout_s) override;
  Traffic traffic() const override { return traffic_; }

 protected:
  ShmChannel(Device& device, std::shared_ptr<SharedRegion> region, SharedRegion::End& own,
             std::shared_ptr<InProcessQueues> inside, const TransportOptions& options);
  /// Marks this end as gone, then waits, at most 1 s, until the peers need no frames of this end
  /// any more.
  ~ShmChannel() override;
  ShmChannel(const ShmChannel&) = delete;
  ShmChannel& operator=(const ShmChannel&) = delete;

  Peer& add_peer(SharedRegion::End& end, Ring& in, Ring& out);
  Peer& add_inside_peer(SharedRegion::End& end, InProcessQueue& in, InProcessQueue& out);
  Peer& peer(int index) { return *peers_[static_cast<std::size_t>(index)]; }
  int peers() const { return static_cast<int>(peers_.size()); }
  const TransportOptions& options() const { return options_; }
  InProcessQueues& inside() const { return *inside_; }

  /// The peer's process has ended; another one may begin, and finds empty rings.
  static void begin_anew(Peer& peer);
  static void set_free(Peer& peer);
  static Outbound pack(const Peer& peer, Message message);
  /// Hands the message to the peer. Returns false if the peer takes none now.
  bool offer(Peer& peer, Outbound& outbound);
  /// Does what Channel::try_send() does.
  bool try_offer(Peer& peer, Message message);
  shm::Backoff backoff() const { return shm::Backoff(region_->spins(), region_->spins()); }
  /// Calls `attempt` until it returns true; between two calls waits until something changes.
  /// Returns false if that takes longer than the deadline. If the first attempt fails, this end
  /// counts as waiting for room at the peer, which then raises this end's bell.
  template <class Attempt>
  bool keep_trying(Peer& peer, Attempt attempt) {
    if (attempt()) return true;
    const Clock& clock = device_.clock();
    WaitingTime waited(clock.now(), shm::Flag::longest_sleep_s);
    shm::Backoff backoff = this->backoff();
    for (;;) {
      const std::uint32_t seen = own_.bell.value();
      if (peer.out) peer.out->await_room();
      if (attempt()) return true;
      const double left = options_.timeout_s - waited.seconds(clock.now());
      if (left <= 0) return false;
      backoff.pause(own_.bell, seen, left);
    }
  }
  /// Returns the next message of the peer. Throws Error if its bytes are invalid; the message is
  /// then skipped.
  std::optional<Message> take(Peer& peer);
  /// Whether the peer will neither take nor send anything more, and everything that it sent has
  /// been taken.
  bool is_over(Peer& peer);

  Inbox& inbox() { return inbox_; }

 private:
  virtual std::optional<Received> receive_now() = 0;
  /// Called repeatedly while no message comes.
  virtual void check_peers() {}
  Message open(Peer& peer, Record record);
  Tensor view(const Peer& peer, const shm::Address& address, const Shape& shape, DType dtype,
              const std::shared_ptr<void>& release) const;
  /// Releases the frames that the peer needs no more.
  void collect(Peer& peer);
  Tensor symmetric(const Tensor& frame) const;

  Device& device_;
  std::shared_ptr<SharedRegion> region_;
  SharedRegion::End& own_;
  std::shared_ptr<InProcessQueues> inside_;
  TransportOptions options_;
  mutable shm::PeerMemory memory_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Traffic traffic_;
  Inbox inbox_;
};

}  // namespace ringside::ps
