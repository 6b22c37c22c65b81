// SharedRegion: the memory through which the workers and servers of a run on one host communicate.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/shm/flag.h"
#include "core/shm/mapping.h"
#include "ps/transport/shm/ring.h"

namespace ringside::ps {

/// A file in memory, mapped by all ranks of a run: one end for every worker and server, and a ring
/// in each direction for every pair of them. Unused pages take no memory. The file has no name and
/// disappears with the last rank.
class SharedRegion {
 public:
  /// The state that a worker or a server publishes. All zeros before it has joined.
  struct alignas(64) End {
    shm::Flag bell;  // raised when something may have changed for this end
    std::atomic<std::int32_t> process;
    std::atomic<std::uint32_t> gone;
  };
  struct Lane {
    Ring to_server, to_worker;
  };

  /// Makes the region of a run. The file stays open until this object ends, so that other ranks can
  /// open it.
  static std::shared_ptr<SharedRegion> create(int workers, int servers);
  /// Maps the region whose address() is given. Throws Error if it does not exist, or is for another
  /// number of workers or servers.
  static std::shared_ptr<SharedRegion> join(const std::string& address, int workers, int servers);

  /// For other ranks of this host.
  std::string address() const;
  End& worker(int worker) const { return end(worker); }
  End& server(int server) const { return end(workers_ + server); }
  Lane& lane(int worker, int server) const;
  int workers() const { return workers_; }
  int servers() const { return servers_; }
  /// Whether every worker and server can have a core of its own, so that waits may spin.
  bool spins() const { return spins_; }

 private:
  SharedRegion(shm::File file, int workers, int servers);
  static std::size_t bytes(int workers, int servers);
  End& end(int index) const { return reinterpret_cast<End*>(mapping_.data())[index]; }

  shm::File file_;
  shm::Mapping mapping_;
  int workers_, servers_;
  bool spins_;
};

/// A watch on the process that owns an end.
class EndWatch {
 public:
  EndWatch() = default;
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;
  ~EndWatch();

  /// Whether the end has closed or its process has ended, killed or not. False for an end that has
  /// not joined yet. Does not block.
  bool gone(const SharedRegion::End& end);
  /// From now on watches the next process that joins as this end.
  void begin_anew();

 private:
  std::int32_t process_ = 0;  // that is watched
  int descriptor_ = -1;       // becomes readable when the process ends; -1: no way to know
  bool ended_ = false;
};

}  // namespace ringside::ps
