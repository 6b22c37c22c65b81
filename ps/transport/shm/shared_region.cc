#include "ps/transport/shm/shared_region.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/base/error.h"
#include "core/base/processor.h"

namespace ringside::ps {

std::size_t SharedRegion::bytes(int workers, int servers) {
  const auto w = static_cast<std::size_t>(workers), s = static_cast<std::size_t>(servers);
  return (w + s) * sizeof(End) + w * s * sizeof(Lane);
}

SharedRegion::SharedRegion(shm::File file, int workers, int servers)
    : file_(std::move(file)),
      mapping_(file_),
      workers_(workers),
      servers_(servers),
      spins_(workers + servers <= allowed_cores().value_or(0)) {}

std::shared_ptr<SharedRegion> SharedRegion::create(int workers, int servers) {
  return std::shared_ptr<SharedRegion>(new SharedRegion(
      shm::File::create(bytes(workers, servers), "ringside-ps"), workers, servers));
}

std::shared_ptr<SharedRegion> SharedRegion::join(const std::string& address, int workers,
                                                 int servers) {
  int process = 0, number = 0;
  unsigned long long identity = 0;
  if (std::sscanf(address.c_str(), "%d:%d:%llu", &process, &number, &identity) != 3)
    throw Error("'{}' is not the address of shared memory of server 0", address);
  shm::File file = shm::File::of_process(process, number);
  if (file.identity() != identity) throw Error("server 0 has ended");
  if (file.bytes() != bytes(workers, servers))
    throw Error(
        "server 0 made {} bytes of shared memory, but {} workers and {} servers need {}; all ranks "
        "must be of one build and one plan",
        file.bytes(), workers, servers, bytes(workers, servers));
  return std::shared_ptr<SharedRegion>(new SharedRegion(std::move(file), workers, servers));
}

std::string SharedRegion::address() const {
  return fmt::format("{}:{}:{}", getpid(), file_.number(), file_.identity());
}

SharedRegion::Lane& SharedRegion::lane(int worker, int server) const {
  auto* lanes = reinterpret_cast<Lane*>(&end(workers_ + servers_));
  return lanes[worker * servers_ + server];
}

EndWatch::~EndWatch() {
  if (descriptor_ >= 0) close(descriptor_);
}

void EndWatch::begin_anew() {
  if (descriptor_ >= 0) close(descriptor_);
  process_ = 0;
  descriptor_ = -1;
  ended_ = false;
}

bool EndWatch::gone(const SharedRegion::End& end) {
  if (ended_ || end.gone.load(std::memory_order_acquire) != 0) return true;
  if (process_ == 0) {
    process_ = end.process.load(std::memory_order_acquire);
    if (process_ == 0 || process_ == getpid()) return false;
    descriptor_ = static_cast<int>(syscall(SYS_pidfd_open, process_, 0));
    ended_ = descriptor_ < 0 && errno == ESRCH;
    if (ended_) return true;
  }
  if (descriptor_ < 0) return false;
  pollfd ended{descriptor_, POLLIN, 0};
  ended_ = poll(&ended, 1, 0) > 0;
  return ended_;
}

}  // namespace ringside::ps
