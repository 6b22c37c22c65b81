// A piece of device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace ringside {

/// The uses of memory. Every byte that a device hands out belongs to one kind, and every figure
/// about memory is given by kind.
enum class MemoryKind : std::uint8_t {
  parameter,
  gradient,
  optimizer,
  activation,
  communication,
  workspace,
  data
};
inline constexpr std::size_t memory_kinds = 7;

constexpr std::string_view name_of(MemoryKind kind) {
  constexpr std::string_view names[memory_kinds] = {
      "parameter", "gradient", "optimizer", "activation", "communication", "workspace", "data"};
  return names[static_cast<std::size_t>(kind)];
}

/// The address of a buffer for peers on the same host: a file, which they open through the owner's
/// process (`/proc/PID/fd/FILE`) and map, and the offset of the buffer's first byte in the file.
/// `file` is -1 for a buffer outside the symmetric heap.
struct SymmetricAddress {
  int file = -1;
  std::size_t offset = 0;
};

/// Owns one allocation, which the destructor returns to the device. The device must outlive the
/// buffer. `data()` is null on a device whose buffers have no memory.
class Buffer {
 public:
  Buffer(std::byte* data, std::size_t bytes, MemoryKind kind, SymmetricAddress address,
         std::function<void()> release)
      : data_(data), bytes_(bytes), kind_(kind), address_(address), release_(std::move(release)) {}
  ~Buffer() {
    if (release_) release_();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  MemoryKind kind() const { return kind_; }
  SymmetricAddress address() const { return address_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
  MemoryKind kind_;
  SymmetricAddress address_;
  std::function<void()> release_;
};

}  // namespace ringside
