#include "ps/protocol/archive.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/support/complaint.h"

namespace ringside::ps {
namespace {

// The offsets of some fields in a header. The order of the fields is: magic number, version, token,
// kind, reply, worker, step, micro_batch, begin, count, scalar, text, frames.
constexpr std::size_t version_at = 4, kind_at = 14, reply_at = 15, text_size_at = 68;

Header sample_header() {
  return {.token = 0xfeedfacecafebeef,
          .kind = Kind::loss,
          .reply = true,
          .worker = 3,
          .step = 1234567890123,
          .micro_batch = 2,
          .begin = 4096,
          .count = 262144,
          .scalar = -0.1,
          .text = "why"};
}

std::vector<std::byte> sample_bytes() { return encode({sample_header(), {}}); }

std::string refusal(const std::vector<std::byte>& bytes) {
  return testing::complaint([&] { decode(bytes); });
}

TEST(Archive, GivesBackEveryField) {
  const auto device = make_cpu_device(1);
  const Message message{sample_header(),
                        {device->tensor({2, 3}, MemoryKind::data),
                         device->tensor({1, 2, 3, 4, 5}, MemoryKind::data, DType::i32),
                         device->tensor({7}, MemoryKind::data, DType::u8),
                         device->tensor({9, 2}, MemoryKind::data, DType::bf16)}};
  const Decoded decoded = decode(encode(message));
  EXPECT_EQ(decoded.header, message.header);
  ASSERT_EQ(decoded.frames.size(), message.frames.size());
  for (std::size_t i = 0; i < message.frames.size(); ++i) {
    EXPECT_EQ(decoded.frames[i].dtype, message.frames[i].dtype());
    EXPECT_EQ(decoded.frames[i].shape, message.frames[i].shape());
  }
}

TEST(Archive, EveryKindTravels) {
  for (std::size_t k = 0; k < kinds; ++k) {
    Message message;
    message.header.kind = static_cast<Kind>(k);
    EXPECT_EQ(decode(encode(message)).header.kind, message.header.kind);
    EXPECT_FALSE(name_of(message.header.kind).empty());
  }
}

TEST(Archive, CutsALongText) {
  Message message;
  message.header.text = std::string(100000, 'x');
  const auto bytes = encode(message);
  EXPECT_LE(bytes.size(), max_header_bytes);
  EXPECT_EQ(decode(bytes).header.text.substr(0, 10), "xxxxxxxxxx");
}

TEST(Archive, RefusesEveryTruncation) {
  const auto whole = sample_bytes();
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refusal({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}),
              "nothing")
        << size;
}

TEST(Archive, RefusesBytesLeftOver) {
  auto bytes = sample_bytes();
  bytes.push_back(std::byte{0});
  EXPECT_EQ(refusal(bytes), "message header: 1 bytes left over");
}

TEST(Archive, RefusesOtherProgramsAndVersions) {
  auto bytes = sample_bytes();
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(refusal(bytes), "message header: not a header of Ringside");
  bytes = sample_bytes();
  bytes[version_at] = std::byte{9};
  EXPECT_EQ(refusal(bytes),
            fmt::format("message header: version is 9, but this program has {}", protocol_version));
}

TEST(Archive, RefusesValuesThatNoEnumOrBooleanHas) {
  auto bytes = sample_bytes();
  bytes[kind_at] = std::byte{kinds};
  EXPECT_NE(refusal(bytes).find(
                fmt::format("a value is {}, but at most {} is allowed", kinds, kinds - 1)),
            std::string::npos)
      << refusal(bytes);
  bytes = sample_bytes();
  bytes[reply_at] = std::byte{2};
  EXPECT_EQ(refusal(bytes), "message header: 2 is not a boolean");
}

TEST(Archive, RefusesASizeLargerThanTheBytesLeft) {
  auto bytes = sample_bytes();
  const std::uint32_t huge = 0xfffffff0;
  std::memcpy(bytes.data() + text_size_at, &huge, sizeof huge);
  EXPECT_NE(refusal(bytes).find("a size is 4294967280, but"), std::string::npos) << refusal(bytes);
}

TEST(Archive, RefusesFramesThatCannotBe) {
  const auto device = make_cpu_device(1);
  const auto good = encode({sample_header(), {device->tensor({5, 6}, MemoryKind::data)}});
  const std::size_t extent_at = good.size() - 16;
  for (const std::int64_t extent : {std::int64_t{-1}, std::int64_t{1} << 62}) {
    auto bytes = good;
    std::memcpy(bytes.data() + extent_at, &extent, sizeof extent);
    EXPECT_NE(refusal(bytes).find("an extent of"), std::string::npos) << refusal(bytes);
  }
  auto bytes = good;
  bytes[extent_at - 1] = std::byte{6};
  EXPECT_EQ(refusal(bytes), "message header: a frame has 6 extents, which is too many");
  bytes = good;
  bytes[extent_at - 2] = std::byte{6};
  EXPECT_EQ(refusal(bytes), "message header: a value is 6, but at most 5 is allowed") << "a dtype";
}

TEST(Archive, RefusesAHeaderThatIsTooLong) {
  EXPECT_NE(refusal(std::vector<std::byte>(max_header_bytes + 1)), "nothing");
}

/// For any bytes decode() throws Error or returns a header. It does not crash, and it makes no
/// large allocation, because the number of bytes bounds all sizes.
TEST(Archive, SurvivesRandomBytes) {
  std::mt19937 random(1);
  const auto good = sample_bytes();
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    auto bytes = good;
    if (i % 4 == 0) bytes.resize(random() % 300);
    const std::size_t changes = i % 4 == 0 ? bytes.size() : 1 + random() % 4;
    for (std::size_t c = 0; c < changes && !bytes.empty(); ++c)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    try {
      const Decoded decoded = decode(bytes);
      EXPECT_LE(decoded.frames.size(), bytes.size());
      EXPECT_LE(decoded.header.text.size(), bytes.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace ringside::ps
