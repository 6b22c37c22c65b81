// Files without a name, shared between processes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace ringside::peer {

/// An open file, closed at the end.
class File {
 public:
  File() = default;
  /// A new file in memory, which goes away with its last user.
  static File create(std::size_t bytes);
  /// What another process (or this one) has open as `file`. Throws Error if it cannot be opened.
  static File of_process(pid_t process, int file);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  int number() const { return number_; }
  std::size_t bytes() const;
  /// Differs from that of every other file in memory.
  std::uint64_t identity() const { return identity_of(number_); }
  static std::uint64_t identity_of(int number);

 private:
  explicit File(int number) : number_(number) {}
  int number_ = -1;
};

/// A whole file in the address space, readable and writable.
class Mapping {
 public:
  explicit Mapping(const File& file);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace ringside::peer
