#include "core/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/data_files.h"
#include "tests/support/gzipped.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using testing::big_endian;
using testing::complaint;
using testing::gzipped;
using ::testing::HasSubstr;
using testing::idx;
using ::testing::Not;
using testing::sample_of;

constexpr std::uint32_t images_magic = 0x803, labels_magic = 0x801;

class Idx : public ::testing::Test {
 protected:
  /// Five images of 2x3: pixel p of image i is 10 * i + p.
  static std::string pixels() {
    std::string out;
    for (int i = 0; i < 5; ++i)
      for (int p = 0; p < 6; ++p) out += static_cast<char>(10 * i + p);
    return out;
  }
  static std::string images() { return idx(images_magic, {5, 2, 3}, pixels()); }
  static std::string labels() { return idx(labels_magic, {5}, {"\3\1\4\1\5", 5}); }

  std::unique_ptr<Dataset> open(const std::string& image_bytes, const std::string& label_bytes,
                                Split split = Split::training, double holdout = 0) const {
    return idx_dataset(folder_.write("images", image_bytes), folder_.write("labels", label_bytes),
                       10, 0.5, 0.25, split, holdout);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(Idx, GivesScaledImagesChannelsLastAndTheirLabels) {
  const auto data = open(images(), labels());
  EXPECT_EQ(data->size(), 5);
  EXPECT_EQ(data->input_shape(), Shape({2, 3, 1}));
  EXPECT_EQ(data->input_dtype(), DType::f32);
  EXPECT_EQ(data->target_shape(), Shape({1}));
  const auto sample = sample_of<float>(*data, 2);
  EXPECT_EQ(sample.target, (std::vector<std::int32_t>{4}));
  for (std::size_t p = 0; p < 6; ++p)
    EXPECT_FLOAT_EQ(sample.input[p],
                    static_cast<float>(((20.0 + static_cast<double>(p)) / 255 - 0.5) / 0.25));
  data->check();
}

TEST_F(Idx, ReadsBytesAbove127AsNumbersWithoutASign) {
  const auto data = open(idx(images_magic, {1, 1, 1}, "\xff"), idx(labels_magic, {1}, "\1"));
  EXPECT_FLOAT_EQ(sample_of<float>(*data, 0).input[0], 2);
}

TEST_F(Idx, TakesImagesWithChannels) {
  const auto data = open(idx(0x804, {5, 1, 2, 3}, pixels()), labels());
  EXPECT_EQ(data->input_shape(), Shape({1, 2, 3}));
}

TEST_F(Idx, HoldsOutTheLastShare) {
  EXPECT_EQ(open(images(), labels(), Split::training, 0.4)->size(), 3);
  const auto held_out = open(images(), labels(), Split::held_out, 0.4);
  ASSERT_EQ(held_out->size(), 2);
  EXPECT_EQ(sample_of<float>(*held_out, 1).target[0], 5);
  EXPECT_THROW(open(images(), labels(), Split::training, 1), Error);
}

TEST_F(Idx, NamesFileAndOffsetOfWhatIsWrong) {
  const auto says = [&](const std::string& i, const std::string& l) {
    return complaint([&] { open(i, l)->check(); });
  };
  EXPECT_EQ(says(images(), labels()), "nothing");
  EXPECT_THAT(says(labels(), images()),
              AllOf(HasSubstr("images: at byte 0: magic number 0x00000801"),
                    HasSubstr("name the file of images first")));
  EXPECT_THAT(says(images(), images()), HasSubstr("labels: at byte 0: magic number 0x00000803"));
  EXPECT_THAT(says(idx(0xd03, {5, 2, 3}, pixels()), labels()),
              HasSubstr("magic number 0x00000d03"));
  EXPECT_THAT(says(images().substr(0, 10), labels()),
              HasSubstr("images: at byte 10: the file ends within its header"));
  EXPECT_THAT(says("", labels()), HasSubstr("images: at byte 0: the file ends"));
  EXPECT_THAT(says(images().substr(0, 40), labels()),
              HasSubstr("images: at byte 40: the file has 40 bytes, but its header says 46"));
  EXPECT_THAT(says(images() + "x", labels()),
              HasSubstr("images: at byte 46: the file has 47 bytes, but its header says 46"));
  EXPECT_THAT(says(idx(images_magic, {5, 0, 3}, ""), labels()),
              HasSubstr("images: at byte 8: the header gives an extent of 0"));
  EXPECT_THAT(says(idx(images_magic, {0xffffffff, 0xffffffff, 0xffffffff}, ""), labels()),
              HasSubstr("images: at byte 8: an extent of 4294967295 is too large"));
  EXPECT_THAT(says(images(), idx(labels_magic, {4}, "\3\1\4\1")),
              AllOf(HasSubstr("labels: at byte 4: 4 labels, but"), HasSubstr("has 5 images")));
  EXPECT_THAT(says("PK\x03\x04", labels()), HasSubstr("images is a ZIP archive; unpack it: unzip"));
  EXPECT_THAT(says(images(), "version https://git-lfs.github.com/spec/v1\n"),
              HasSubstr("labels is a pointer of Git LFS"));
}

TEST_F(Idx, IsReadOfWhatGzipMadeOfIt) {
  std::vector<testing::Sample<float>> plain;
  {
    const auto data = open(images(), labels());
    for (int i = 0; i < 5; ++i) plain.push_back(sample_of<float>(*data, i));
    EXPECT_EQ(data->memory(), 0u);
  }
  const auto data = open(gzipped(images()), gzipped(labels()));
  ASSERT_EQ(data->size(), 5);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(sample_of<float>(*data, i), plain[static_cast<std::size_t>(i)]) << i;
  EXPECT_EQ(data->memory(), images().size() + labels().size());
  data->check();
  const auto says = [&](const std::string& i, const std::string& l) {
    return complaint([&] { open(i, l)->check(); });
  };
  EXPECT_THAT(says(gzipped(images().substr(0, 40)), labels()),
              HasSubstr("images, unpacked: at byte 40: the file has 40 bytes"));
  EXPECT_THAT(says(gzipped(images()).substr(0, 20), labels()),
              HasSubstr("images: at byte 20: the file ends within its compressed data"));
  EXPECT_THAT(says(images(), gzipped(idx(labels_magic, {5}, {"\3\1\xa\1\5", 5}))),
              HasSubstr("labels, unpacked: at byte 10: label 10 is out of range"));
}

TEST_F(Idx, OfAnotherTypeOrFormIsNamedAsWhatItIs) {
  const auto says = [&](const std::string& i, const std::string& l) {
    return complaint([&] { open(i, l); });
  };
  EXPECT_EQ(says(idx(0xd03, {5, 2, 3}, std::string(120, 'x')), labels()),
            "data.path: " + (folder_.path() / "images").string() +
                ": at byte 0: magic number 0x00000d03, but files of images have 0x00000803: it "
                "says 32-bit floats with 3 extents; write images as unsigned bytes with 3 extents, "
                "or 4 with channels");
  EXPECT_THAT(says(idx(0x802, {5, 6}, pixels()), labels()),
              AllOf(HasSubstr("unsigned bytes with 2 extents"), Not(HasSubstr("first"))));
  EXPECT_THAT(says(images(), idx(0xc01, {5}, std::string(20, '\0'))),
              AllOf(HasSubstr("32-bit integers with 1 extent;"),
                    HasSubstr("write labels as unsigned bytes")));
  EXPECT_THAT(says("To be, or not to be", labels()), HasSubstr("the file is not IDX"));
}

TEST_F(Idx, RefusesALabelThatIsNoClassWhenItIsLookedAt) {
  const auto data = open(images(), idx(labels_magic, {5}, {"\3\1\xa\1\5", 5}));
  EXPECT_THAT(
      complaint([&] { data->check(); }),
      AllOf(HasSubstr("labels: at byte 10: label 10 is out of range: the classes are 0 to 9"),
            HasSubstr("model.classes")));
  EXPECT_NO_THROW(sample_of<float>(*data, 1));
  EXPECT_THROW(sample_of<float>(*data, 2), Error);
}

TEST_F(Idx, DamagedFilesAreRefusedOrRead) {
  const testing::MemoryFile good_images(images()), good_labels(labels());
  const auto read = [](const std::string& image_path, const std::string& label_path) {
    testing::read_all<float>(*idx_dataset(image_path, label_path, 10, 0, 1, Split::training, 0));
  };
  EXPECT_NO_THROW(read(good_images.path(), good_labels.path()));
  EXPECT_GT(testing::damage(images(), [&](const auto& bad) { read(bad, good_labels.path()); }),
            200);
  EXPECT_GT(testing::damage(labels(), [&](const auto& bad) { read(good_images.path(), bad); }),
            200);
}

TEST_F(Idx, FindsTheFilesOfAFolder) {
  const auto paths = [&] { return std::vector<std::string>{folder_.path().string()}; };
  EXPECT_THAT(complaint([&] { idx_files(paths()); }), HasSubstr("holds neither"));
  const std::string packed_images = folder_.write("t10k-images-idx3-ubyte.gz", "");
  const std::string packed_labels = folder_.write("t10k-labels-idx1-ubyte.gz", "");
  EXPECT_EQ(idx_files(paths()).training,
            (std::vector<std::filesystem::path>{packed_images, packed_labels}));
  const std::string images = folder_.write("t10k-images-idx3-ubyte", "");
  const std::string labels = folder_.write("t10k-labels-idx1-ubyte", "");
  const DataFiles one = idx_files(paths());
  EXPECT_EQ(one.training, (std::vector<std::filesystem::path>{images, labels}));
  EXPECT_TRUE(one.held_out.empty());
  EXPECT_EQ(one.note, "the t10k files are trained on, as there are no train files");
  EXPECT_EQ(
      one.left_out,
      (std::vector<LeftOut>{{"name of no file of the set", 2, 0, "t10k-images-idx3-ubyte.gz"}}));
  const std::string more = folder_.write("train-images.idx3-ubyte", "");
  folder_.write("train-labels.idx1-ubyte", "");
  const DataFiles both = idx_files(paths());
  EXPECT_EQ(both.training[0], more);
  EXPECT_EQ(both.held_out, one.training);
  EXPECT_EQ(both.note, "the t10k files are held out");
}

TEST_F(Idx, FindsOneFileOfAPairCompressedAndTheOtherNot) {
  const std::string images = folder_.write("train-images-idx3-ubyte", "");
  const std::string labels = folder_.write("train-labels-idx1-ubyte.gz", "");
  EXPECT_EQ(idx_files({folder_.path().string()}).training,
            (std::vector<std::filesystem::path>{images, labels}));
}

TEST_F(Idx, RefusesAFolderWithImagesOrLabelsAlone) {
  const std::vector<std::string> paths = {folder_.path().string()};
  folder_.write("t10k-images-idx3-ubyte", "");
  folder_.write("t10k-labels-idx1-ubyte", "");
  folder_.write("train-images-idx3-ubyte.gz", "");
  EXPECT_EQ(complaint([&] { idx_files(paths); }),
            "data.path: " + paths[0] +
                " holds train-images-idx3-ubyte.gz, but not train-labels-idx1-ubyte; fetch the "
                "missing file, or name files");
  folder_.write("train-labels-idx1-ubyte", "");
  EXPECT_EQ(complaint([&] { idx_files(paths); }), "nothing");
  std::filesystem::remove(folder_.path() / "t10k-images-idx3-ubyte");
  EXPECT_THAT(complaint([&] { idx_files(paths); }),
              HasSubstr("holds t10k-labels-idx1-ubyte, but not t10k-images-idx3-ubyte"));
}

TEST_F(Idx, TakesTwoOrFourNamedFiles) {
  EXPECT_EQ(idx_files({"a", "b"}).training.size(), 2u);
  const DataFiles four = idx_files({"a", "b", "c", "d"});
  EXPECT_EQ(four.training[1], "b");
  EXPECT_EQ(four.held_out[0], "c");
  EXPECT_THAT(complaint([&] { idx_files({"a", "b", "c"}); }), HasSubstr("names 3 files"));
  EXPECT_THAT(complaint([&] { idx_files({folder_.path() / "none"}); }),
              HasSubstr("does not exist"));
}

TEST_F(Idx, RefusesADeviationThatIsNotAbove0) {
  folder_.write("images", images());
  folder_.write("labels", labels());
  EXPECT_THROW(idx_dataset(folder_.path() / "images", folder_.path() / "labels", 10, 0, 0,
                           Split::training, 0),
               Error);
}

}  // namespace
}  // namespace ringside
