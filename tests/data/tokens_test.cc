#include "core/data/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/data/token_files.h"
#include "tests/data/data_files.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::sample_of;
using testing::token_file;

class Tokens : public ::testing::Test {
 protected:
  std::unique_ptr<Dataset> open(const std::string& bytes, std::int64_t vocabulary = 50257,
                                std::int64_t context = 3) const {
    return token_dataset({folder_.write("file.bin", bytes)}, context, vocabulary, Task::every_token,
                         Split::training, 0);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(Tokens, GivesWindowsOfBothKindsOfFile) {
  const auto small = open(token_file<std::uint16_t>({10, 50256, 30, 40, 50}));
  ASSERT_EQ(small->size(), 2);
  EXPECT_THAT(sample_of<std::int32_t>(*small, 1).input, ElementsAre(50256, 30, 40));
  EXPECT_THAT(sample_of<std::int32_t>(*small, 1).target, ElementsAre(30, 40, 50));
  small->check();
  const auto large = open(token_file<std::uint32_t>({10, 128255, 30, 40, 50}), 128256);
  EXPECT_THAT(sample_of<std::int32_t>(*large, 0).input, ElementsAre(10, 128255, 30));
  large->check();
}

TEST_F(Tokens, HasOneTargetWhereOnlyTheLastCounts) {
  const auto data = token_dataset({folder_.write("a", token_file<std::uint16_t>({1, 2, 3, 4}))}, 2,
                                  10, Task::last_token, Split::training, 0);
  EXPECT_THAT(sample_of<std::int32_t>(*data, 1).input, ElementsAre(2, 3));
  EXPECT_THAT(sample_of<std::int32_t>(*data, 1).target, ElementsAre(4));
}

TEST_F(Tokens, GoesOnInTheNextFileAndHoldsOutTheLastShare) {
  std::vector<std::uint16_t> all(10);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  const std::vector<std::filesystem::path> files = {
      folder_.write("a", token_file<std::uint16_t>({0, 1})),
      folder_.write("b", token_file<std::uint16_t>({})),
      folder_.write("c", token_file<std::uint16_t>({2})),
      folder_.write("d", token_file<std::uint16_t>({3, 4, 5, 6, 7, 8, 9}))};
  const auto part = [&](Split split, double holdout) {
    return token_dataset(files, 3, 10, Task::every_token, split, holdout);
  };
  const auto whole = part(Split::training, 0);
  ASSERT_EQ(whole->size(), 7);
  for (int i = 0; i < 7; ++i)
    EXPECT_THAT(sample_of<std::int32_t>(*whole, i).input, ElementsAre(i, i + 1, i + 2));
  EXPECT_EQ(part(Split::training, 0.5)->size(), 2);
  EXPECT_THAT(sample_of<std::int32_t>(*part(Split::held_out, 0.5), 1).input, ElementsAre(6, 7, 8));
  EXPECT_THAT(complaint([&] { part(Split::held_out, 0.3); }), HasSubstr("held-out part of"));
}

TEST_F(Tokens, NamesFileAndOffsetOfWhatIsWrong) {
  const auto good = token_file<std::uint16_t>({1, 2, 3, 4, 5});
  const auto says = [&](const std::string& bytes) {
    return complaint([&] { open(bytes)->check(); });
  };
  const auto with = [&](std::size_t word, std::int32_t value) {
    std::string bad = good;
    std::memcpy(bad.data() + 4 * word, &value, 4);
    return bad;
  };
  EXPECT_EQ(says(good), "nothing");
  EXPECT_THAT(says(good.substr(0, 1000)),
              HasSubstr("file.bin: at byte 1000: the file ends within its header"));
  EXPECT_THAT(says(""), HasSubstr("file.bin: at byte 0"));
  EXPECT_THAT(says(with(0, 20240326)), HasSubstr("file.bin: at byte 0: magic number 20240326"));
  EXPECT_THAT(says(with(0, 20240801)), HasSubstr("file.bin: at byte 4: version 1"));
  EXPECT_THAT(says(with(1, 2)), HasSubstr("file.bin: at byte 4: version 2"));
  EXPECT_THAT(
      says(with(2, 6)),
      HasSubstr(
          "file.bin: at byte 8: the header promises 6 tokens of 2 bytes each, so the file should "
          "have 1036 bytes, but it has 1034"));
  EXPECT_THAT(says(with(2, -5)), HasSubstr("file.bin: at byte 8: the header promises -5 tokens"));
  EXPECT_THAT(says(good + "x"), HasSubstr("file.bin: at byte 8"));
  EXPECT_THAT(says(token_file<std::uint16_t>({1, 2, 3})),
              HasSubstr("has 3 tokens, but one sample needs 4 tokens"));
  const auto mixed = [&] {
    token_dataset({folder_.write("a", good), folder_.write("b", token_file<std::uint32_t>({1}))}, 1,
                  10, Task::every_token, Split::training, 0);
  };
  EXPECT_THAT(complaint(mixed), HasSubstr("b: at byte 0: this file's tokens have 4 bytes"));
}

TEST_F(Tokens, RefusesATokenBeyondTheVocabularyWhenItIsLookedAt) {
  std::vector<std::uint16_t> tokens(200'000, 7);  // more than check() reads at once
  tokens[150'001] = 300;
  const auto data = open(token_file(tokens), 300);
  EXPECT_THAT(
      complaint([&] { data->check(); }),
      AllOf(HasSubstr("file.bin: at byte 301026: token 300 is beyond the vocabulary of 300"),
            HasSubstr("model.vocabulary")));
  EXPECT_NO_THROW(sample_of<std::int32_t>(*data, 149'997));
  EXPECT_THROW(sample_of<std::int32_t>(*data, 149'998), Error);
  EXPECT_NO_THROW(open(token_file(tokens), 301)->check());
  // The last token is more than an int32 can hold.
  const auto large = open(token_file<std::uint32_t>({1, 2, 3, 0xffffffff}), 128256);
  EXPECT_THAT(complaint([&] { large->check(); }), HasSubstr("token 4294967295 is beyond"));
}

TEST_F(Tokens, DamagedFilesAreRefusedOrRead) {
  const auto read = [](const std::string& path) {
    testing::read_all<std::int32_t>(
        *token_dataset({path}, 3, 50257, Task::every_token, Split::training, 0));
  };
  const auto small = token_file<std::uint16_t>({1, 2, 3, 4, 5, 6});
  const auto large = token_file<std::uint32_t>({1, 2, 3, 4, 5, 6});
  EXPECT_NO_THROW(read(testing::MemoryFile(small).path()));
  EXPECT_GT(testing::damage(small, read), 200);
  EXPECT_GT(testing::damage(large, read), 200);
}

TEST_F(Tokens, OtherFilesInTheirPlaceAreNamed) {
  EXPECT_THAT(
      complaint([&] { open("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"); }),
      HasSubstr("file.bin is a pointer of Git LFS"));
  EXPECT_THAT(complaint([&] { open("<html><body>404</body></html>"); }),
              HasSubstr("file.bin is a page of HTML"));
}

class TokenFiles : public Tokens {
 protected:
  std::string folder() const { return folder_.path().string(); }
  DataFiles list() const { return token_files({folder()}); }
  std::string says() const {
    return complaint([&] { list(); });
  }
  static std::vector<std::string> names(const std::vector<std::filesystem::path>& files) {
    std::vector<std::string> out;
    for (const auto& file : files) out.push_back(file.filename().string());
    return out;
  }
};

TEST_F(TokenFiles, OfAFolderAreHeldOutWhereTheirNamesHaveThePartVal) {
  EXPECT_THAT(says(), HasSubstr("holds no token files"));
  EXPECT_THROW(token_files({}), Error);
  for (const char* name :
       {"x_train_000002.bin", "x_train_000001.bin", "medieval.bin", "valence_x.bin", "notes.txt"})
    folder_.write(name, "");
  EXPECT_THAT(names(list().training), ElementsAre("medieval.bin", "valence_x.bin",
                                                  "x_train_000001.bin", "x_train_000002.bin"));
  EXPECT_EQ(list().note, "");
  EXPECT_EQ(list().left_out,
            (std::vector<LeftOut>{{"name of no file of the set", 1, 0, "notes.txt"}}));
  for (const char* name : {"x_val_000000.bin", "tiny_val.bin", "val.bin", "a-val-b.bin"})
    folder_.write(name, "");
  EXPECT_EQ(list().training.size(), 4u);
  EXPECT_THAT(names(list().held_out),
              ElementsAre("a-val-b.bin", "tiny_val.bin", "val.bin", "x_val_000000.bin"));
  EXPECT_EQ(list().note, "names with the part val are held out");
}

TEST_F(TokenFiles, ThatAreNamedAreAllForTraining) {
  const std::vector<std::string> names = {folder_.write("medieval.bin", ""),
                                          folder_.write("x_val_000000.bin", "")};
  const DataFiles files = token_files(names);
  EXPECT_EQ(files.training, (std::vector<std::filesystem::path>{names[0], names[1]}));
  EXPECT_TRUE(files.held_out.empty());
}

TEST_F(TokenFiles, AreTrainedOnWhereAFolderHasNoOthers) {
  const std::string only = folder_.write("x_val_000000.bin", "");
  EXPECT_EQ(list().training, std::vector<std::filesystem::path>{only});
  EXPECT_EQ(list().note, "all names have the part val, so none is held out");
}

TEST_F(TokenFiles, OfWhichOneIsMissingInASequenceAreRefused) {
  for (const char* name : {"x_train_000001.bin", "x_train_000002.bin", "x_train_000004.bin",
                           "x_train_000007.bin", "x_val_000000.bin"})
    folder_.write(name, "");
  EXPECT_EQ(says(), "data.path: " + folder() +
                        " holds a part of the set: x_train_000003.bin and 2 more are missing "
                        "before x_train_000007.bin; fetch what is missing, or name the files to "
                        "train on");
  for (const char* name : {"x_train_000005.bin", "x_train_000006.bin"}) folder_.write(name, "");
  EXPECT_THAT(says(), HasSubstr("x_train_000003.bin is missing before x_train_000007.bin"));
  folder_.write("x_train_000003.bin", "");
  EXPECT_EQ(says(), "nothing");
}

TEST_F(TokenFiles, AreASequenceWhereTheirNumbersCountThem) {
  for (const char* name : {"wiki2019.bin", "wiki2021.bin", "model124M.bin", "b9.bin"})
    folder_.write(name, "");
  EXPECT_EQ(says(), "nothing") << "years count no files";
  folder_.write("shard0.bin", "");
  folder_.write("shard10.bin", "");
  EXPECT_THAT(says(), HasSubstr("shard1.bin and 8 more are missing before shard10.bin"));
}

}  // namespace
}  // namespace ringside
