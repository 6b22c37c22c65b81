#include "core/data/gzip.h"

#include <gmock/gmock.h>

#include "core/data/file_content.h"
#include "tests/data/data_files.h"
#include "tests/support/gzipped.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using testing::complaint;
using testing::gzipped;
using ::testing::HasSubstr;

constexpr std::size_t no_limit = std::size_t{1} << 40;

/// Bytes that no compressor shortens much.
std::string noise(std::size_t count) {
  std::string out;
  for (std::uint32_t state = 1; out.size() < count;)
    out += static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return out;
}

class Gzip : public ::testing::Test {
 protected:
  RegularFile file(const std::string& bytes) const {
    return RegularFile(folder_.write("data.gz", bytes));
  }
  std::string unpacked(const std::string& bytes, std::size_t most = no_limit) const {
    const UnpackedBytes out = unpack(file(bytes), most);
    std::string text(out.size(), '\0');
    out.read(0, std::as_writable_bytes(std::span(text)));
    return text;
  }
  std::string says(const std::string& bytes, std::size_t most = no_limit) const {
    return complaint([&] { unpacked(bytes, most); });
  }
  std::string path() const { return folder_.path() / "data.gz"; }
  testing::TemporaryFolder folder_;
};

TEST_F(Gzip, IsUnpackedToWhatWasCompressed) {
  constexpr std::size_t piece = UnpackedBytes::piece_bytes;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, piece - 1, piece, piece + 1, 2 * piece + 77})
    EXPECT_TRUE(unpacked(gzipped(noise(size))) == noise(size)) << size;
}

TEST_F(Gzip, IsReadAnywhere) {
  const std::string text = noise(3 * UnpackedBytes::piece_bytes);
  const FileContent content = FileContent::unpacked(file(gzipped(text)));
  EXPECT_EQ(content.size(), text.size());
  EXPECT_EQ(content.memory(), text.size());
  for (const std::size_t at : {std::size_t{0}, UnpackedBytes::piece_bytes - 3, text.size() - 10}) {
    std::string part(10, '\0');
    content.read(at, std::as_writable_bytes(std::span(part)));
    EXPECT_EQ(part, text.substr(at, 10)) << at;
  }
  std::string most(text.size() - 2, '\0');
  content.read(1, std::as_writable_bytes(std::span(most)));
  EXPECT_TRUE(most == text.substr(1, most.size()));
}

TEST_F(Gzip, OfSeveralMembersIsReadAsOne) {
  EXPECT_EQ(unpacked(gzipped("one, ") + gzipped("") + gzipped("two")), "one, two");
}

TEST_F(Gzip, ThatEndsTooEarlyIsNamedWithItsEnd) {
  const std::string good = gzipped(noise(200'000));
  for (const std::size_t size : {std::size_t{5}, std::size_t{150'000}, good.size() - 1})
    EXPECT_EQ(says(good.substr(0, size)),
              fmt::format("data.path: {}: at byte {}: the file ends within its compressed data; "
                          "fetch or make the file again",
                          path(), size));
  EXPECT_THAT(says(gzipped("one") + good.substr(0, 7)), HasSubstr("ends within its compressed"));
}

TEST_F(Gzip, ThatIsDamagedIsNamedWithTheOffset) {
  const std::string good = gzipped(noise(200'000));
  std::string bad = good;
  bad[bad.size() - 8] ^= 1;  // of the checksum
  EXPECT_THAT(says(bad), AllOf(HasSubstr(path() + ": at byte " + std::to_string(bad.size() - 4)),
                               HasSubstr("damaged (incorrect data check)")));
  EXPECT_EQ(says(gzipped("text") + "more"),
            fmt::format("data.path: {}: at byte {}: the compressed data are damaged (incorrect "
                        "header check); fetch or make the file again",
                        path(), gzipped("text").size() + 2));
}

TEST_F(Gzip, DamagedFilesAreRefusedOrRead) {
  const auto read = [](const std::string& path) { unpack(RegularFile(path), no_limit); };
  EXPECT_GT(testing::damage(gzipped(noise(300)), read), 200);
}

TEST_F(Gzip, ThatUnpacksToMoreThanMemoryMayHoldIsRefused) {
  const std::string bomb = gzipped(std::string(40'000'000, 'a'));
  ASSERT_LT(bomb.size(), 400'000u);
  EXPECT_EQ(says(bomb, 2'500'000),
            "data.path: " + path() +
                " unpacks to more than 2.5 MB, the most that memory may hold of it here; unpack "
                "it: gzip -dk " +
                path());
  EXPECT_EQ(unpack_beginning(file(bomb), 100).size(), 100u);
  EXPECT_EQ(says(gzipped(noise(1000)), 1000), "nothing");
}

}  // namespace
}  // namespace ringside
