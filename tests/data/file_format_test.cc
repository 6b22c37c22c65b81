#include "core/data/file_format.h"

#include <gmock/gmock.h>

#include "tests/data/data_files.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::HasSubstr;

FileFormat format_of_text(const std::string& text) {
  return format_of(std::as_bytes(std::span(text.data(), text.size())));
}

const std::string pointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

TEST(FileFormats, AreToldByTheirBeginnings) {
  EXPECT_EQ(format_of_text(std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10)), FileFormat::gzip);
  EXPECT_EQ(format_of_text("BZh91AY&SY"), FileFormat::bzip2);
  EXPECT_EQ(format_of_text(std::string("\xfd"
                                       "7zXZ\0\0",
                                       7)),
            FileFormat::xz);
  EXPECT_EQ(format_of_text("\x28\xb5\x2f\xfd\x24"), FileFormat::zstandard);
  EXPECT_EQ(format_of_text("PK\x03\x04\x14"), FileFormat::zip);
  EXPECT_EQ(format_of_text(std::string("PK\x03\x04\0\0", 6) + "model/data.pkl"),
            FileFormat::torch_checkpoint);
  EXPECT_EQ(format_of_text(std::string(257, '\0') + "ustar  "), FileFormat::tar);
  EXPECT_EQ(format_of_text("%PDF-1.5"), FileFormat::pdf);
  EXPECT_EQ(format_of_text("PAR1\x15"), FileFormat::parquet);
  EXPECT_EQ(format_of_text(std::string("\xff\xfeh\0i\0", 6)), FileFormat::utf16);
  EXPECT_EQ(format_of_text(std::string("\xfe\xff\0h\0i", 6)), FileFormat::utf16);
  EXPECT_EQ(format_of_text(std::string("\xff\xfe\0\0h\0\0\0", 8)), FileFormat::utf16) << "UTF-32";
  EXPECT_EQ(format_of_text(pointer), FileFormat::lfs_pointer);
  EXPECT_EQ(format_of_text("\xef\xbb\xbf\n <!DOCTYPE html>\n<title>Sign in"), FileFormat::html);
  EXPECT_EQ(format_of_text("<?xml version=\"1.0\"?><!-- made --><HTML lang=en>"), FileFormat::html);
}

TEST(FileFormats, OfTextAndDataAreOther) {
  for (const std::string& text :
       {std::string(), std::string("BZh, a name"), std::string("PK"), std::string("\x1f\x8b"),
        std::string("In HTML, <html> opens a page."), std::string("<doc id=1>Anarchism</doc>"),
        std::string("version https://example.org"), std::string("<"), std::string(" \n"),
        testing::idx(0x803, {1, 2, 2}, "abcd"), testing::token_file<std::uint16_t>({1, 2})})
    EXPECT_EQ(format_of_text(text), FileFormat::other) << text;
}

TEST(FileFormats, OfSafetensorsAreNotMistakenForThoseThatTheLengthsOfTheirHeadersSpell) {
  EXPECT_EQ(format_of_text(std::string("\x1f\x8b\x08\0\0\0\0\0{\"a\"", 12)), FileFormat::other);
  EXPECT_EQ(format_of_text(std::string("\xff\xfe\0\0\0\0\0\0{\"a\"", 12)), FileFormat::other);
}

TEST(FileFormats, AreRefusedWithWhatToDo) {
  const testing::TemporaryFolder folder;
  const auto says = [&](const std::string& name, const std::string& text) {
    const std::string path = folder.write(name, text);
    return complaint([&] { refuse_other_formats(RegularFile(path)); });
  };
  const std::string in = folder.path().string() + "/";
  EXPECT_EQ(says("fine", "text"), "nothing");
  EXPECT_EQ(says("model.bin", pointer),
            "data.path: " + in +
                "model.bin is a pointer of Git LFS, not the file itself; fetch the file itself: "
                "git lfs pull --include model.bin");
  EXPECT_EQ(says("a.gz", "\x1f\x8b\x08"),
            "data.path: " + in + "a.gz is compressed by gzip; unpack it: gzip -dk " + in + "a.gz");
  EXPECT_EQ(says("a", "\x1f\x8b\x08"), "data.path: " + in +
                                           "a is compressed by gzip; unpack it: gzip -dc < " + in +
                                           "a > " + in + "a.unpacked")
      << "gzip -d takes no file without its ending";
  EXPECT_THAT(says("two words.gz", "\x1f\x8b\x08"), HasSubstr("gzip -dk '" + in + "two words.gz'"));
  EXPECT_THAT(says("it's.zip", "PK\x03\x04"), HasSubstr("unzip '" + in + "it'\\''s.zip'"));
  EXPECT_THAT(says("page.bin", "<html><body>404"),
              AllOf(HasSubstr("page.bin is a page of HTML"), HasSubstr("fetch the file again")));
}

}  // namespace
}  // namespace ringside
