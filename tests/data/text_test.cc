#include "core/data/text.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "core/base/error.h"
#include "core/data/loader.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/support/complaint.h"

namespace ringside {
namespace {

using testing::complaint;

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

struct Sample {
  std::string input, target;
};

Sample sample_of(const Dataset& data, std::int64_t i) {
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
  EXPECT_EQ(sample_of(*data, 0).input, "abc");
  EXPECT_EQ(sample_of(*data, 0).target, "bcd");
  EXPECT_EQ(sample_of(*data, 4).input, "efg");
  EXPECT_EQ(sample_of(*data, 4).target, "fgh");
}

TEST_F(Text, HasOneTargetWhereOnlyTheLastCounts) {
  const auto data =
      text_dataset({write("a.txt", "abcdefgh")}, 3, Task::last_token, Split::training, 0);
  EXPECT_EQ(data->target_shape(), Shape({1}));
  EXPECT_EQ(sample_of(*data, 1).input, "bcd");
  EXPECT_EQ(sample_of(*data, 1).target, "e");
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
  EXPECT_EQ(sample_of(*training, 4).target, "56");
  EXPECT_EQ(sample_of(*held_out, 0).input, "78");
  EXPECT_EQ(sample_of(*held_out, 0).target, "89");
}

TEST_F(Text, CrossesFromOneFileIntoTheNext) {
  const std::vector<fs::path> files = {write("a", "ab"), write("b", "c"), write("empty", ""),
                                       write("c", "defg")};
  const auto data = text_dataset(files, 4, Task::every_token, Split::training, 0);
  ASSERT_EQ(data->size(), 3);
  const std::string all = "abcdefg";
  for (std::int64_t i = 0; i < data->size(); ++i) {
    EXPECT_EQ(sample_of(*data, i).input, all.substr(static_cast<std::size_t>(i), 4));
    EXPECT_EQ(sample_of(*data, i).target, all.substr(static_cast<std::size_t>(i) + 1, 4));
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
  EXPECT_EQ(names_of(text_files({root_.string()})),
            (std::vector<std::string>{"a/c/d.txt", "a/z.txt", "b.txt", "rebuild/y"}));
}

TEST_F(Text, TakesFilesAndFoldersInTheOrderGiven) {
  const auto file = write("z.txt", "z");
  write("a/b.txt", "b");
  EXPECT_EQ(names_of(text_files({file.string(), (root_ / "a").string()})),
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
            "data.path: " + folder + " holds no text files");
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
  const auto data =
      text_dataset(text_files({root_.string()}), 150, Task::last_token, Split::training, 0);
  EXPECT_EQ(sample_of(*data, 20).input, all.substr(20, 150));
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
