// Memory of other processes of this host.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "core/shm/mapping.h"
#include "core/tensor/tensor.h"

namespace ringside::shm {

/// The address of a tensor: at `offset` of a `file` that a `process` of this host has open.
struct Address {
  std::int32_t process = 0;
  std::int32_t file = -1;
  std::uint64_t identity = 0;  // of the file; `file` may have been another file's number before
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Gives addresses of this rank's tensors to peers, and maps the files that hold the peers'
/// tensors. A file is mapped at its first use, and anew when it has grown by a tensor that is asked
/// for; the newest mapping lasts until this object ends, an older one as long as pointers into it.
/// Thread-safe.
class PeerMemory {
 public:
  /// Returns where `tensor` lies. Throws Error if the tensor is not fp32, bf16 or fp16, or not in
  /// the symmetric heap.
  Address publish(const Tensor& tensor);
  /// Returns a pointer to the first byte of the tensor. The memory stays mapped as long as the
  /// pointer is held. Throws Error if the file cannot be opened or mapped, has been replaced, or
  /// ends before the tensor does.
  std::shared_ptr<std::byte> find(const Address& address);
  /// Does what find() does, with a mapping of its own, which ends with the pointer.
  static std::shared_ptr<std::byte> map(const Address& address);

 private:
  std::mutex mutex_;
  pid_t process_ = getpid();
  std::map<int, std::uint64_t> own_;  // identities of this rank's files
  std::map<std::tuple<pid_t, int, std::uint64_t>, std::shared_ptr<Mapping>> files_;
};

}  // namespace ringside::shm
