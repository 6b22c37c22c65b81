#include "core/data/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "core/base/error.h"
#include "core/data/loader.h"
#include "core/data/text_files.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/support/complaint.h"
#include "tests/support/gzipped.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using testing::complaint;
using testing::gzipped;
using ::testing::HasSubstr;

const std::string lfs_pointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";

namespace fs = std::filesystem;

/// Each test has a folder of its own.
class Text : public ::testing::Test {
 protected:
  Text() {
    std::string name = (fs::temp_directory_path() / "ringside-text-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~Text() override { fs::remove_all(root_); }

  fs::path write(const std::string& name, const std::string& content) const {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::vector<std::string> names_of(const std::vector<fs::path>& files) const {
    std::vector<std::string> names;
    for (const auto& file : files) names.push_back(fs::relative(file, root_).string());
    return names;
  }

  fs::path root_;
};

struct TextSample {
  std::string input, target;
};

TextSample text_sample_of(const Dataset& data, std::int64_t i) {
  std::vector<std::int32_t> input(static_cast<std::size_t>(data.input_shape().count()));
  std::vector<std::int32_t> target(static_cast<std::size_t>(data.target_shape().count()));
  data.read(i, std::as_writable_bytes(std::span(input)), target);
  const auto text = [](const std::vector<std::int32_t>& tokens) {
    std::string out;
    for (auto t : tokens) out += static_cast<char>(static_cast<unsigned char>(t));
    return out;
  };
  return {text(input), text(target)};
}

TEST_F(Text, HasAWindowAtEveryByteWithTheBytesThatFollowAsTargets) {
  const auto data =
      text_dataset({write("a.txt", "abcdefgh")}, 3, Task::every_token, Split::training, 0);
  ASSERT_EQ(data->size(), 5);
  EXPECT_EQ(data->input_shape(), Shape({3}));
  EXPECT_EQ(data->target_shape(), Shape({3}));
  EXPECT_EQ(data->input_dtype(), DType::i32);
  EXPECT_EQ(text_sample_of(*data, 0).input, "abc");
  EXPECT_EQ(text_sample_of(*data, 0).target, "bcd");
  EXPECT_EQ(text_sample_of(*data, 4).input, "efg");
  EXPECT_EQ(text_sample_of(*data, 4).target, "fgh");
}

TEST_F(Text, HasOneTargetWhereOnlyTheLastCounts) {
  const auto data =
      text_dataset({write("a.txt", "abcdefgh")}, 3, Task::last_token, Split::training, 0);
  EXPECT_EQ(data->target_shape(), Shape({1}));
  EXPECT_EQ(text_sample_of(*data, 1).input, "bcd");
  EXPECT_EQ(text_sample_of(*data, 1).target, "e");
}

TEST_F(Text, ReadsBytesAsNumbersFrom0To255) {
  const auto data =
      text_dataset({write("a.txt", "\xff\x80\x01")}, 2, Task::every_token, Split::training, 0);
  std::vector<std::int32_t> input(2), target(2);
  data->read(0, std::as_writable_bytes(std::span(input)), target);
  EXPECT_EQ(input, (std::vector<std::int32_t>{255, 128}));
  EXPECT_EQ(target, (std::vector<std::int32_t>{128, 1}));
}

TEST_F(Text, HoldsOutTheLastShareOfTheBytes) {
  const auto file = write("a.txt", "0123456789");
  const auto training = text_dataset({file}, 2, Task::every_token, Split::training, 0.35);
  const auto held_out = text_dataset({file}, 2, Task::every_token, Split::held_out, 0.35);
  ASSERT_EQ(training->size(), 5);  // 7 bytes
  ASSERT_EQ(held_out->size(), 1);  // 3 bytes
  EXPECT_EQ(text_sample_of(*training, 4).target, "56");
  EXPECT_EQ(text_sample_of(*held_out, 0).input, "78");
  EXPECT_EQ(text_sample_of(*held_out, 0).target, "89");
}

TEST_F(Text, CrossesFromOneFileIntoTheNext) {
  const std::vector<fs::path> files = {write("a", "ab"), write("b", "c"), write("empty", ""),
                                       write("c", "defg")};
  const auto data = text_dataset(files, 4, Task::every_token, Split::training, 0);
  ASSERT_EQ(data->size(), 3);
  const std::string all = "abcdefg";
  for (std::int64_t i = 0; i < data->size(); ++i) {
    EXPECT_EQ(text_sample_of(*data, i).input, all.substr(static_cast<std::size_t>(i), 4));
    EXPECT_EQ(text_sample_of(*data, i).target, all.substr(static_cast<std::size_t>(i) + 1, 4));
  }
}

TEST_F(Text, RefusesASplitThatIsTooShortForAWindow) {
  const auto file = write("short.txt", "abcd");
  EXPECT_EQ(text_dataset({file}, 3, Task::every_token, Split::training, 0)->size(), 1);
  EXPECT_NE(complaint([&] {
              text_dataset({file}, 4, Task::every_token, Split::training, 0);
            }).find("short"),
            std::string::npos);
  EXPECT_THROW(text_dataset({file}, 3, Task::every_token, Split::held_out, 0), Error);
  EXPECT_THROW(text_dataset({file}, 3, Task::every_token, Split::training, 1.0), Error);
  EXPECT_THROW(text_dataset({file}, 0, Task::every_token, Split::training, 0), Error);
}

TEST_F(Text, TakesTheTextFilesOfAFolderInOrder) {
  write("b.txt", "b");
  write("a/z.txt", "z");
  write("a/c/d.txt", "d");
  write("binary", std::string("a\0b", 3));
  write("nothing", "");
  write(".hidden/x", "x");
  write("build/x", "x");
  write("a/build-debug/x", "x");
  write("results/x", "x");
  write("rebuild/y", "y");
  fs::create_symlink(root_ / "b.txt", root_ / "link");
  fs::create_directory_symlink(root_ / "a", root_ / "again");
  const DataFiles files = text_files({root_.string()});
  EXPECT_EQ(names_of(files.training),
            (std::vector<std::string>{"a/c/d.txt", "a/z.txt", "b.txt", "rebuild/y"}));
  EXPECT_TRUE(files.held_out.empty());
  EXPECT_EQ(files.left_out,
            (std::vector<LeftOut>{{"folder named .*, build* or results", 4, 0, ".hidden"},
                                  {"link", 2, 0, "again"},
                                  {"no text (a NUL byte)", 1, 3, "binary"},
                                  {"empty", 1, 0, "nothing"}}));
}

TEST_F(Text, LeavesOutOfAFolderWhatIsNoTextAndSaysWhy) {
  write("a.txt", "text");
  write("b.txt.gz", gzipped("compressed text"));
  write("page.html", "<html>a page that is meant</html>");
  write("page.txt", "<!DOCTYPE html><title>Sign in</title>");
  write("utf16.txt", std::string("\xff\xfeh\0i\0", 6));
  write("words.zip", "PK\x03\x04\x14");
  write("pointer", lfs_pointer);
  write("tar.gz", gzipped(std::string(257, ' ') + "ustar  "));
  write("late.txt", std::string(70'000, 'a') + '\0');
  const DataFiles files = text_files({root_.string()});
  EXPECT_EQ(names_of(files.training), (std::vector<std::string>{"a.txt", "b.txt.gz", "page.html"}));
  EXPECT_EQ(
      files.left_out,
      (std::vector<LeftOut>{{"no text (a NUL byte)", 1, 70'001, "late.txt"},
                            {"a page of HTML", 1, 37, "page.txt"},
                            {"a pointer of Git LFS, not the file itself", 1,
                             static_cast<std::int64_t>(lfs_pointer.size()), "pointer"},
                            {"compressed by gzip: a tar archive", 1,
                             static_cast<std::int64_t>(fs::file_size(root_ / "tar.gz")), "tar.gz"},
                            {"text in UTF-16 or UTF-32", 1, 6, "utf16.txt"},
                            {"a ZIP archive", 1, 5, "words.zip"}}));
}

TEST_F(Text, IsReadOfWhatGzipMadeOfIt) {
  const std::vector<fs::path> files = {write("a.txt", "abc"),
                                       write("b.txt.gz", gzipped("defg") + gzipped("h"))};
  EXPECT_EQ(names_of(text_files({files[1].string()}).training),
            std::vector<std::string>{"b.txt.gz"});
  const auto data = text_dataset(files, 4, Task::every_token, Split::training, 0);
  ASSERT_EQ(data->size(), 4);
  EXPECT_EQ(text_sample_of(*data, 1).input, "bcde");
  EXPECT_EQ(text_sample_of(*data, 3).target, "efgh");
  EXPECT_EQ(data->memory(), 5u);
  data->check();
}

TEST_F(Text, RefusesANamedFileThatIsNoText) {
  const auto says = [&](const std::string& name, const std::string& content) {
    const std::string path = write(name, content).string();
    return complaint([&] { text_files({path}); });
  };
  const std::string in = "data.path: " + root_.string() + "/";
  EXPECT_EQ(says("a.txt", "text"), "nothing");
  EXPECT_EQ(says("page.html", "<html>"), "nothing");
  EXPECT_EQ(says("page.html.gz", gzipped("<html>")), "nothing");
  EXPECT_EQ(says("a.zip", "PK\x03\x04\x14"),
            in + "a.zip is a ZIP archive; unpack it: unzip " + (root_ / "a.zip").string());
  EXPECT_THAT(says("page.txt", "<!doctype HTML>"), HasSubstr(in + "page.txt is a page of HTML; "));
  EXPECT_THAT(says("pointer.txt", lfs_pointer),
              HasSubstr(in + "pointer.txt is a pointer of Git LFS, not the file itself; fetch the "
                             "file itself: git lfs pull"));
  EXPECT_THAT(says("utf16.txt", std::string("\xfe\xff\0h\0i", 6)),
              HasSubstr(in + "utf16.txt is text in UTF-16 or UTF-32; convert it: iconv"));
  EXPECT_THAT(says("no-mark.txt", std::string("h\0i\0", 4)),
              HasSubstr(in + "no-mark.txt: at byte 1: a NUL byte, which text does not have"));
  EXPECT_EQ(says("a.tgz", gzipped(std::string(257, ' ') + "ustar  ")),
            in + "a.tgz is compressed by gzip and holds a tar archive; unpack it: tar -xf " +
                (root_ / "a.tgz").string());
  EXPECT_THAT(says("cut.gz", gzipped("some text").substr(0, 12)),
              HasSubstr(in + "cut.gz: at byte 12: the file ends within its compressed data"));
}

TEST_F(Text, ThatHasANulByteFarFromItsBeginningIsFoundBeforeTraining) {
  const std::string text = std::string(100'000, 'a') + '\0' + std::string(100'000, 'b');
  for (const auto& [name, content] :
       {std::pair("a.txt", text), std::pair("a.txt.gz", gzipped(text))}) {
    const std::string path = write(name, content).string();
    EXPECT_EQ(text_files({path}).training.size(), 1u);
    const auto part = [&](Split split) {
      return text_dataset({write("first", "12"), path}, 3, Task::every_token, split, 0.6);
    };
    EXPECT_EQ(complaint([&] { part(Split::training)->check(); }), "nothing") << "the first 40%";
    EXPECT_THAT(complaint([&] { part(Split::held_out)->check(); }),
                AllOf(HasSubstr(path), HasSubstr(": at byte 100000: a NUL byte")));
  }
}

TEST_F(Text, TakesFilesAndFoldersInTheOrderGiven) {
  const auto file = write("z.txt", "z");
  write("a/b.txt", "b");
  EXPECT_EQ(names_of(text_files({file.string(), (root_ / "a").string()}).training),
            (std::vector<std::string>{"z.txt", "a/b.txt"}));
}

TEST_F(Text, NamesThePathThatIsMissingOrEmpty) {
  const auto missing = (root_ / "missing.txt").string();
  EXPECT_EQ(complaint([&] { text_files({missing}); }), "data.path: " + missing + " does not exist");
  const auto empty = write("empty.txt", "").string();
  EXPECT_EQ(complaint([&] { text_files({empty}); }), "data.path: " + empty + " is empty");
  write("folder/binary", std::string(3, '\0'));
  const auto folder = (root_ / "folder").string();
  EXPECT_EQ(complaint([&] { text_files({folder}); }),
            "data.path: " + folder +
                " holds no text files; left out: no text (a NUL byte): 1 (3 bytes, binary)");
  EXPECT_THROW(text_files({}), Error);
  EXPECT_THROW(text_files({"/dev/null"}), Error);
  EXPECT_NE(complaint([&] {
              text_dataset({missing}, 1, Task::every_token, Split::training, 0);
            }).find(missing),
            std::string::npos);
}

/// The number of mappings that this process has; the system allows some 65,000.
std::ptrdiff_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

TEST_F(Text, OfMoreFilesThanAProcessMayHaveOpenOrMapped) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{128, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::string all;
  for (int i = 0; i < 200; ++i) {
    all += static_cast<char>('a' + i % 26);
    write(std::to_string(1000 + i), all.substr(all.size() - 1));
  }
  const std::ptrdiff_t before = mappings();
  const auto data = text_dataset(text_files({root_.string()}).training, 150, Task::last_token,
                                 Split::training, 0);
  EXPECT_EQ(text_sample_of(*data, 20).input, all.substr(20, 150));
  EXPECT_LT(mappings() - before, 100) << "of 200 files";
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(Text, IsLoadedInSlicesThatMakeUpTheGlobalBatch) {
  const auto data = text_dataset({write("a.txt", "the quick brown fox jumps over the lazy dog")}, 4,
                                 Task::every_token, Split::training, 0);
  const auto device = make_cpu_device(1);
  const Loader loader(*data, *device, 6, 1);
  EXPECT_EQ(loader.batches(), data->size() / 6);
  const auto bytes = [](const Tensor& t) {
    const auto s = t.span<std::int32_t>();
    return std::vector<std::int32_t>(s.begin(), s.end());
  };
  const Batch whole = loader.read({.step = 9, .first = 0, .count = 6});
  EXPECT_EQ(whole.inputs.shape(), Shape({6, 4}));
  EXPECT_EQ(whole.targets.shape(), Shape({6, 4}));
  EXPECT_EQ(device->ledger().current()[MemoryKind::data], 2 * 6 * 4 * 4);
  std::vector<std::int32_t> inputs, targets;
  for (std::int64_t first = 0; first < 6; first += 2) {
    const Batch part = loader.read({.step = 9, .first = first, .count = 2});
    for (auto t : bytes(part.inputs)) inputs.push_back(t);
    for (auto t : bytes(part.targets)) targets.push_back(t);
  }
  EXPECT_EQ(inputs, bytes(whole.inputs));
  EXPECT_EQ(targets, bytes(whole.targets));
  // Each target is the token after its input.
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (i % 4 != 3) {
      EXPECT_EQ(targets[i], inputs[i + 1]);
    }
  EXPECT_THROW(loader.read({.step = 0, .first = 4, .count = 3}), Error);
  EXPECT_THROW(loader.read({.step = 0, .first = 0, .count = 0}), Error);
  EXPECT_THROW(Loader(*data, *device, 1000, 1), Error);
}

}  // namespace
}  // namespace ringside
