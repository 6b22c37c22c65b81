#include "core/data/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/data/data_files.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::HasSubstr;
using testing::sample_of;

constexpr int plane = 32 * 32;

/// Pixel i of channel c.
int pixel(int c, int i) { return (7 * c + i) % 256; }

std::string record(const std::string& labels) {
  std::string out = labels;
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < plane; ++i) out += static_cast<char>(pixel(c, i));
  return out;
}

float scaled(int value, double mean, double deviation) {
  return static_cast<float>((value / 255.0 - mean) / deviation);
}

class CifarFiles : public ::testing::Test {
 protected:
  std::unique_ptr<Dataset> open(Cifar set, const std::string& bytes, std::int64_t classes = 10,
                                bool augment = false) const {
    return cifar_dataset(set, {folder_.write("file.bin", bytes)}, classes, augment, Split::training,
                         0);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(CifarFiles, GivesChannelsLastNormalisedByChannel) {
  const auto data = open(Cifar::ten, record("\7") + record("\2"));
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->input_shape(), Shape({32, 32, 3}));
  const auto sample = sample_of<float>(*data, 1);
  EXPECT_EQ(sample.target[0], 2);
  EXPECT_FLOAT_EQ(sample.input[3 * 5 + 0], scaled(pixel(0, 5), 0.4914, 0.2470));
  EXPECT_FLOAT_EQ(sample.input[3 * 5 + 1], scaled(pixel(1, 5), 0.4822, 0.2435));
  EXPECT_FLOAT_EQ(sample.input[3 * 1000 + 2], scaled(pixel(2, 1000), 0.4465, 0.2616));
}

TEST_F(CifarFiles, HundredHasTwoLabelsAndTheFineOneCounts) {
  const auto data = open(Cifar::hundred, record("\3\x58") + record("\4\5"), 100);
  EXPECT_EQ(data->size(), 2);
  const auto sample = sample_of<float>(*data, 0);
  EXPECT_EQ(sample.target[0], 0x58);
  EXPECT_FLOAT_EQ(sample.input[1], scaled(pixel(1, 0), 0.4865, 0.2564));
}

TEST_F(CifarFiles, GoesOnInTheNextFileAndHoldsOutTheLastShare) {
  const std::vector<std::filesystem::path> files = {
      folder_.write("a", record("\1")), folder_.write("b", record("\2") + record("\3"))};
  const auto part = [&](Split split) {
    return cifar_dataset(Cifar::ten, files, 10, false, split, 0.34);
  };
  ASSERT_EQ(part(Split::training)->size(), 2);
  EXPECT_EQ(sample_of<float>(*part(Split::training), 1).target[0], 2);
  ASSERT_EQ(part(Split::held_out)->size(), 1);
  EXPECT_EQ(sample_of<float>(*part(Split::held_out), 0).target[0], 3);
}

TEST_F(CifarFiles, AugmentationShiftsAndMirrorsByItsBitsAlone) {
  const auto data = open(Cifar::ten, record("\1"), 10, true);
  const auto original = sample_of<float>(*data, 0).input;
  const auto changed = [&](std::uint64_t bits) {
    auto image = original;
    data->augment(std::as_writable_bytes(std::span(image)), bits);
    return image;
  };
  constexpr std::uint64_t middle = 4 + 4 * 9;  // no shift either way
  EXPECT_EQ(changed(middle), original);
  const auto at = [](const std::vector<float>& image, int y, int x, int c) {
    return image[static_cast<std::size_t>((y * 32 + x) * 3 + c)];
  };
  const auto mirrored = changed(middle + 81);
  EXPECT_EQ(at(mirrored, 3, 2, 1), at(original, 3, 29, 1));
  const auto moved = changed(0);  // cut out four pixels above and left of the image
  EXPECT_EQ(at(moved, 4, 4, 2), at(original, 0, 0, 2));
  EXPECT_EQ(at(moved, 31, 20, 0), at(original, 27, 16, 0));
  for (int c = 0; c < 3; ++c)
    EXPECT_EQ(at(moved, 3, 20, c),
              scaled(0, std::array{0.4914, 0.4822, 0.4465}[static_cast<std::size_t>(c)],
                     std::array{0.2470, 0.2435, 0.2616}[static_cast<std::size_t>(c)]));
  const auto other = changed(8 + 8 * 9);
  EXPECT_EQ(at(other, 0, 0, 0), at(original, 4, 4, 0));
  EXPECT_EQ(at(other, 28, 0, 0), moved[0]);
  std::set<std::vector<float>> all;
  for (std::uint64_t bits = 0; bits < 162; ++bits) all.insert(changed(bits));
  EXPECT_GT(all.size(), 100u);
  EXPECT_EQ(changed(162 + middle), original);

  const auto plain = open(Cifar::ten, record("\1"));
  auto image = original;
  plain->augment(std::as_writable_bytes(std::span(image)), 0);
  EXPECT_EQ(image, original) << "without augmentation nothing changes";
}

TEST_F(CifarFiles, NamesFileAndOffsetOfWhatIsWrong) {
  const auto says = [&](const std::string& bytes) {
    return complaint([&] { open(Cifar::ten, bytes)->check(); });
  };
  const std::string good = record("\1") + record("\2");
  EXPECT_EQ(says(good), "nothing");
  EXPECT_THAT(says(good.substr(0, 5000)),
              HasSubstr("file.bin: at byte 3073: the file has 5000 bytes, which is not a multiple "
                        "of the record size 3073"));
  EXPECT_THAT(says(""), HasSubstr("file.bin: at byte 0"));
  EXPECT_THAT(says(record("\1") + record("\xa")),
              AllOf(HasSubstr("file.bin: at byte 3073: label 10 is out of range"),
                    HasSubstr("model.classes")));
  EXPECT_THAT(complaint([&] { open(Cifar::hundred, record("\0\x32"), 50)->check(); }),
              HasSubstr("at byte"));
  EXPECT_THROW(open(Cifar::hundred, record("\1")), Error);
}

TEST_F(CifarFiles, DamagedFilesAreRefusedOrRead) {
  const auto read = [](const std::string& path) {
    testing::read_all<float>(*cifar_dataset(Cifar::ten, {path}, 10, false, Split::training, 0));
  };
  EXPECT_NO_THROW(read(testing::MemoryFile(record("\1")).path()));
  EXPECT_GT(testing::damage(record("\1") + record("\2"), read), 150);
}

TEST_F(CifarFiles, FindsTheFilesOfAFolder) {
  const std::vector<std::string> folder = {folder_.path().string()};
  EXPECT_THAT(complaint([&] { cifar_files(Cifar::ten, folder); }),
              HasSubstr("holds no data_batch_1.bin"));
  for (int i = 5; i >= 1; --i) folder_.write(fmt::format("data_batch_{}.bin", i), "");
  EXPECT_EQ(cifar_files(Cifar::ten, folder).note, "there is no test_batch.bin to hold out");
  folder_.write("test_batch.bin", "");
  folder_.write("batches.meta.txt", "cat");
  const DataFiles files = cifar_files(Cifar::ten, folder);
  ASSERT_EQ(files.training.size(), 5u);
  EXPECT_EQ(files.training[1].filename(), "data_batch_2.bin");
  EXPECT_EQ(files.held_out.size(), 1u);
  EXPECT_EQ(files.note, "test_batch.bin is held out");
  EXPECT_EQ(files.left_out,
            (std::vector<LeftOut>{{"name of no file of the set", 1, 3, "batches.meta.txt"}}));
  EXPECT_THAT(complaint([&] { cifar_files(Cifar::hundred, folder); }),
              HasSubstr("holds no train.bin"));
}

TEST_F(CifarFiles, RefusesAFolderWithAPartOfTheSet) {
  const std::vector<std::string> folder = {folder_.path().string()};
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"})
    folder_.write(name, "");
  EXPECT_EQ(complaint([&] { cifar_files(Cifar::ten, folder); }),
            "data.path: " + folder[0] +
                " holds a part of the set: data_batch_3.bin is missing; unpack the whole set "
                "there, or name the files to train on");
  std::filesystem::remove(folder_.path() / "data_batch_1.bin");
  EXPECT_THAT(complaint([&] { cifar_files(Cifar::ten, folder); }),
              HasSubstr("data_batch_1.bin, data_batch_3.bin are missing"));
  EXPECT_EQ(cifar_files(Cifar::ten, {folder[0] + "/data_batch_2.bin"}).training.size(), 1u);
}

TEST_F(CifarFiles, ThatAreNamedAreAllForTraining) {
  const std::vector<std::string> names = {folder_.write("test_batch.bin", ""),
                                          folder_.write("data_batch_2.bin", "")};
  const DataFiles files = cifar_files(Cifar::ten, names);
  EXPECT_EQ(files.training, (std::vector<std::filesystem::path>{names[0], names[1]}));
  EXPECT_TRUE(files.held_out.empty());
}

TEST_F(CifarFiles, OtherFilesInTheirPlaceAreNamed) {
  EXPECT_THAT(complaint([&] {
                open(Cifar::ten, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
              }),
              HasSubstr("file.bin is a pointer of Git LFS"));
  EXPECT_THAT(complaint([&] { open(Cifar::ten, "\x1f\x8b\x08"); }),
              HasSubstr("file.bin is compressed by gzip; unpack it: gzip -dc <"));
}

}  // namespace
}  // namespace ringside
