// Files that gzip has compressed, unpacked in memory.
//
// zlib reads them; no other file includes its header.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/regular_file.h"

namespace ringside {

/// The bytes of an unpacked file. They lie in pieces of one size, so that memory grows with what
/// has been unpacked and nothing is moved.
class UnpackedBytes {
 public:
  static constexpr std::size_t piece_bytes = 1 << 20;

  /// Takes the next piece. All but the last are full.
  void append(std::vector<std::byte> piece);
  std::size_t size() const { return size_; }
  /// Fills `out` with the bytes from `offset` on, all within size(). Safe to call from several
  /// threads.
  void read(std::size_t offset, std::span<std::byte> out) const;

 private:
  std::vector<std::vector<std::byte>> pieces_;
  std::size_t size_ = 0;
};

/// Unpacks all members of the file. Throws Error that names the file and the offset in it at which
/// compressed data are damaged or end too early, or if they are more than `most` bytes unpacked or
/// more than the system gives: then no memory is held any more.
UnpackedBytes unpack(const RegularFile& file, std::size_t most);

/// Unpacks the first `count` bytes, or all if there are fewer. Throws Error as unpack() does.
std::vector<std::byte> unpack_beginning(const RegularFile& file, std::size_t count);

}  // namespace ringside
