#include "core/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "core/data/file_format.h"

namespace ringside {
namespace {

/// Unpacks a file from its first byte on.
class Inflater {
 public:
  explicit Inflater(const RegularFile& file) : file_(file) {
    constexpr int gzip_alone = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, gzip_alone) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out` and returns the number of bytes, which is less than its size only at the end.
  std::size_t fill(std::span<std::byte> out) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    while (stream_.avail_out > 0 && !ended_) step();
    return out.size() - stream_.avail_out;
  }

 private:
  void step() {
    if (stream_.avail_in == 0) take_input();
    switch (inflate(&stream_, Z_NO_FLUSH)) {
      case Z_OK:
        return;
      case Z_STREAM_END:
        return end_member();
      case Z_MEM_ERROR:
        throw std::bad_alloc();
      case Z_BUF_ERROR:  // it wants input, and the file has no more
        throw bad_file(file_.path(), offset(), "the file ends within its compressed data");
      default:
        throw bad_file(file_.path(), offset(),
                       fmt::format("the compressed data are damaged ({})",
                                   stream_.msg ? stream_.msg : "zlib gives no reason"));
    }
  }

  /// Takes nothing at the end of the file, where zlib may still hold bytes that it has taken.
  void take_input() {
    const std::size_t count = std::min(input_.size(), file_.size() - read_);
    file_.read(read_, std::span(input_).first(count));
    read_ += count;
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(count);
  }

  /// A file may consist of several members, whose bytes follow each other.
  void end_member() {
    ended_ = offset() == file_.size();
    if (!ended_) inflateReset(&stream_);
  }

  std::size_t offset() const { return read_ - stream_.avail_in; }

  const RegularFile& file_;
  z_stream stream_{};
  std::array<std::byte, 1 << 16> input_;
  std::size_t read_ = 0;  // bytes of the file
  bool ended_ = false;
};

Error too_large(const RegularFile& file, std::size_t most) {
  return Error(
      "{}: {} unpacks to more than {:.1f} MB, the most that memory may hold of it here; {}",
      file.setting(), file.path().string(), 1e-6 * static_cast<double>(most),
      remedy(FileFormat::gzip, file.path()));
}

}  // namespace

void UnpackedBytes::append(std::vector<std::byte> piece) {
  size_ += piece.size();
  pieces_.push_back(std::move(piece));
}

void UnpackedBytes::read(std::size_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const auto from = std::span(pieces_[offset / piece_bytes]).subspan(offset % piece_bytes);
    const std::size_t count = std::min(from.size(), out.size());
    std::memcpy(out.data(), from.data(), count);
    offset += count;
    out = out.subspan(count);
  }
}

UnpackedBytes unpack(const RegularFile& file, std::size_t most) {
  UnpackedBytes out;
  try {
    Inflater inflater(file);
    for (bool more = true; more;) {
      std::vector<std::byte> piece(UnpackedBytes::piece_bytes);
      piece.resize(inflater.fill(piece));
      piece.shrink_to_fit();
      more = piece.size() == UnpackedBytes::piece_bytes;
      out.append(std::move(piece));
      if (out.size() > most) throw too_large(file, most);
    }
  } catch (const std::bad_alloc&) {
    throw too_large(file, out.size());
  }
  return out;
}

std::vector<std::byte> unpack_beginning(const RegularFile& file, std::size_t count) {
  std::vector<std::byte> out(count);
  out.resize(Inflater(file).fill(out));
  return out;
}

}  // namespace ringside
