#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/whole_file.h"
#include "tests/checkpoint/written_checkpoint.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using testing::complaint;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Damage : public testing::WrittenCheckpoint {
 protected:
  Damage() {
    write();
    for (const std::string& name : names) good[name] = content(name);
  }

  static std::size_t draw(std::uint64_t which, std::uint64_t round, std::size_t below) {
    return static_cast<std::size_t>(random_bits(which, Stream::synthetic_data, round) % below);
  }
  std::string content(const std::string& name) const {
    return folder_.read(checkpoint_name(step) + "/" + name);
  }
  void put(const std::string& name, const std::string& text) const {
    folder_.write(checkpoint_name(step) + "/" + name, text);
  }
  void put_byte(const std::string& name, std::size_t at, int value) const {
    std::fstream out(file(name), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(at));
    out.put(static_cast<char>(value));
  }
  const std::vector<std::string> names = {"rank-00000.safetensors", "rank-00001.safetensors",
                                          "rank-00012.safetensors", "manifest.json"};
  std::map<std::string, std::string> good;  // the files' contents
};

TEST_F(Damage, AFlippedBitIsNamedWithFileAndByte) {
  constexpr std::uint64_t flips = 1000;
  for (std::uint64_t round = 0; round < flips; ++round) {
    const std::string& name = names[draw(1, round, names.size())];
    const std::string& text = good[name];
    // Half of the flips hit the first KB, where headers are.
    const std::size_t within =
        round % 2 == 0 ? text.size() : std::min<std::size_t>(1024, text.size());
    const std::size_t at = draw(2, round, within);
    put_byte(name, at, text[at] ^ (1 << draw(3, round, 8)));
    const std::string error = verdict();
    const std::string where = file(name) + ": byte ";
    if (name == "manifest.json")
      ASSERT_THAT(error, StartsWith(where)) << at;
    else
      ASSERT_THAT(error,
                  StartsWith(fmt::format("{}{}: ", where, at / digest_block * digest_block)));
    put_byte(name, at, text[at]);
  }
  EXPECT_EQ(verdict(), "nothing");
}

TEST_F(Damage, AFileThatWasCutIsNamedWithFileAndByte) {
  constexpr std::uint64_t cuts = 1000;
  for (std::uint64_t round = 0; round < cuts; ++round) {
    const std::string& name = names[draw(4, round, names.size())];
    const std::string& text = good[name];
    const std::size_t left = round < names.size() ? 0 : draw(5, round, text.size());
    fs::resize_file(file(name), left);
    const std::string error = complaint([&] { Checkpoint{path()}; });
    if (name == "manifest.json")
      ASSERT_THAT(error, StartsWith(file(name) + ": byte "));
    else
      ASSERT_THAT(error, StartsWith(fmt::format("{}: byte {}: the file ends here, and had {} bytes",
                                                file(name), left, text.size())));
    put(name, text);
  }
  for (const std::string& name : names) {
    put(name, good[name] + 'x');
    EXPECT_THAT(verdict(), StartsWith(file(name) + ": byte "));
    put(name, good[name]);
  }
  EXPECT_EQ(verdict(), "nothing");
}

TEST_F(Damage, OnlyReadingFromADamagedFileFails) {
  const std::string name = "rank-00012.safetensors";
  std::string text = content(name);
  text.back() = static_cast<char>(text.back() ^ 1);
  put(name, text);
  const Checkpoint checkpoint(path());
  std::vector<float> out(10);
  EXPECT_EQ(complaint([&] { checkpoint.read(weights, 0, out); }), "nothing");
  EXPECT_THAT(complaint([&] { checkpoint.read(weights, 600'000, out); }),
              StartsWith(file(name) + ": byte 0: the "));
  EXPECT_THAT(complaint([&] { checkpoint.verify(); }),
              HasSubstr("bytes from here on have changed"));
}

TEST_F(Damage, AFileThatChangesWhileItIsReadIsNoticed) {
  const Checkpoint checkpoint(path());
  std::vector<float> out(10);
  checkpoint.read(residual, 0, out);
  fs::resize_file(file("rank-00012.safetensors"), 100);
  EXPECT_THAT(complaint([&] { checkpoint.read(residual, 0, out); }),
              HasSubstr("rank-00012.safetensors changed while it was in use"));
}

TEST_F(Damage, LinksAndAbsentFilesAreRefused) {
  fs::rename(file("rank-00001.safetensors"), folder_.path() / "elsewhere");
  EXPECT_EQ(verdict(), file("rank-00001.safetensors") + ": there is no such file");
  fs::create_symlink(folder_.path() / "elsewhere", file("rank-00001.safetensors"));
  EXPECT_EQ(verdict(), file("rank-00001.safetensors") +
                           ": this is no file, and links are not followed; copy the file here");
  fs::remove(file("rank-00001.safetensors"));
  fs::create_directory(file("rank-00001.safetensors"));
  EXPECT_THAT(verdict(), HasSubstr("rank-00001.safetensors: this is no file"));
  fs::rename(file("manifest.json"), folder_.path() / "manifest");
  fs::create_symlink(folder_.path() / "manifest", file("manifest.json"));
  EXPECT_THAT(verdict(), HasSubstr("manifest.json: this is no file, and links are not followed"));
  EXPECT_EQ(complaint([&] { Checkpoint{folder_.path() / "nowhere"}; }),
            (folder_.path() / "nowhere").string() +
                ": this is no whole checkpoint: it has no manifest.json");
}

TEST_F(Damage, AFolderOfAnotherStepIsRefused) {
  fs::rename(path(), path(121));
  EXPECT_EQ(complaint([&] { Checkpoint{path(121)}; }),
            path(121).string() + ": its manifest is of step 120; give the folder its own name");
  fs::rename(path(121), folder_.path() / "best");
  EXPECT_EQ(complaint([&] { Checkpoint{folder_.path() / "best"}; }), "nothing");
}

}  // namespace
}  // namespace ringside
