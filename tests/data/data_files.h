// Small data files, good and bad.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/dataset.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::testing {

inline std::string big_endian(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}

inline std::string idx(std::uint32_t magic, const std::vector<std::uint32_t>& extents,
                       const std::string& values) {
  std::string out = big_endian(magic);
  for (const std::uint32_t extent : extents) out += big_endian(extent);
  return out + values;
}

/// A token file as llm.c writes it.
template <class Token>
std::string token_file(const std::vector<Token>& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = sizeof(Token) == 2 ? 20240520 : 20240801;
  header[1] = sizeof(Token) == 2 ? 1 : 7;
  header[2] = static_cast<std::int32_t>(tokens.size());
  std::string out(header.size() * 4 + tokens.size() * sizeof(Token), '\0');
  std::memcpy(out.data(), header.data(), header.size() * 4);
  if (!tokens.empty())
    std::memcpy(out.data() + header.size() * 4, tokens.data(), tokens.size() * sizeof(Token));
  return out;
}

/// One sample, its input as elements of type T.
template <class T>
struct Sample {
  std::vector<T> input;
  std::vector<std::int32_t> target;
  bool operator==(const Sample&) const = default;
};

template <class T>
Sample<T> sample_of(const Dataset& data, std::int64_t i) {
  Sample<T> out{
      std::vector<T>(static_cast<std::size_t>(data.input_shape().count()), T(-1)),
      std::vector<std::int32_t>(static_cast<std::size_t>(data.target_shape().count()), -1)};
  data.read(i, std::as_writable_bytes(std::span(out.input)), out.target);
  return out;
}

/// A file that exists in memory alone.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content) : file_(memfd_create("test", MFD_CLOEXEC)) {
    EXPECT_EQ(write(file_, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/// Calls `use` with damaged copies of the file `good`: cut short, longer, or with changed bits.
/// `use` opens and reads the copy; it may throw Error, but must not fail in another way. Returns
/// the number of copies for which `use` threw Error.
inline int damage(const std::string& good, const std::function<void(const std::string&)>& use) {
  std::uint32_t state = 12345;
  const auto random = [&](std::size_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<std::size_t>(state >> 8) % below;
  };
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string bad = good;
    const std::size_t near = std::min<std::size_t>(bad.size(), 64);
    if (round % 3 == 0) bad.resize(random(bad.size() + 1));
    if (round % 3 == 1) bad.append(1 + random(5000), '\1');
    if (round % 3 == 2 || round % 7 == 0)
      for (std::size_t bits = 1 + random(4); bits > 0 && !bad.empty(); --bits)
        bad[random(round % 2 == 0 ? bad.size() : std::min(near, bad.size()))] ^=
            static_cast<char>(1 << random(8));
    try {
      use(MemoryFile(bad).path());
    } catch (const Error&) {
      ++refused;
    }
  }
  return refused;
}

template <class T>
void read_all(const Dataset& data) {
  data.check();
  for (std::int64_t i = 0; i < data.size(); ++i) sample_of<T>(data, i);
}

}  // namespace ringside::testing
