// Nameless files, shared between processes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace ringside::shm {

/// An open file, which the destructor closes.
class File {
 public:
  File() = default;
  /// Makes a file in memory, whose size never changes. It disappears when no process has it open or
  /// mapped any more. The name is what /proc shows.
  static File create(std::size_t bytes, const char* name);
  /// Opens the file that a process (this or another one) has open under the number `file`. Throws
  /// Error if that file cannot be opened, or if it can shrink: a process that reads beyond the end
  /// of a mapped file is killed.
  static File of_process(pid_t process, int file);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  int number() const { return number_; }
  std::size_t bytes() const;
  /// A number that no other file in memory has.
  std::uint64_t identity() const { return identity_of(number_); }
  static std::uint64_t identity_of(int number);

 private:
  explicit File(int number) : number_(number) {}
  int number_ = -1;
};

/// A whole file mapped into the address space, readable and writable. If the file grows, the
/// mapping does not.
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

}  // namespace ringside::shm
