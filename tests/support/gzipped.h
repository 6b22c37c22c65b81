// Bytes in the form of gzip, for tests.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace ringside::testing {

/// One member of a file that gzip compressed.
inline std::string gzipped(const std::string& bytes) {
  constexpr int as_gzip = 16 + MAX_WBITS;
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, as_gzip, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace ringside::testing
