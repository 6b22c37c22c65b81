#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/checkpoint/written_checkpoint.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using testing::complaint;
using ::testing::ElementsAre;

class CheckpointFolder : public testing::WrittenCheckpoint {
 protected:
  OpenFolder opened() const { return OpenFolder(folder_.path()); }
  void small(std::int64_t at, bool whole = true) const {
    const OpenFolder checkpoint = opened().inside(checkpoint_name(at));
    Manifest manifest = empty_manifest();
    manifest.step = at;
    for (const int rank : {0, 1})
      manifest.files.push_back(write_rank_file(checkpoint, rank, {{weights, 2 * rank, {1, 2}}}));
    if (whole) write_manifest(checkpoint, manifest);
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> out;
    for (const auto& [at, where] : checkpoints_in(folder_.path())) {
      EXPECT_EQ(where, path(at));
      out.push_back(at);
    }
    return out;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
};

TEST_F(CheckpointFolder, ListsWholeCheckpointsByTheirSteps) {
  constexpr std::int64_t large = 12'345'678'901;  // of more digits than most
  for (const std::int64_t at : {std::int64_t{90}, std::int64_t{5}, large}) small(at);
  small(100, false);
  fs::create_directory(folder_.path() / "step-7");
  fs::copy_file(path(5) / "manifest.json", folder_.path() / "step-7" / "manifest.json");
  fs::create_directory_symlink(path(5), path(6));
  folder_.write("step-0000000008", "no folder");
  EXPECT_THAT(steps(), ElementsAre(5, 90, large));
  EXPECT_TRUE(checkpoints_in(folder_.path() / "nowhere").empty());
}

TEST_F(CheckpointFolder, KeepsTheNewestAndForgetsWhatWasNeverFinished) {
  for (const std::int64_t at : {10, 20, 40, 50}) small(at);
  for (const std::int64_t at : {5, 30, 60}) small(at, false);
  folder_.write("notes.txt", "mine");
  remove_old_checkpoints(opened(), 2);
  EXPECT_THAT(names(), ElementsAre("notes.txt", checkpoint_name(40), checkpoint_name(50),
                                   checkpoint_name(60)));
  EXPECT_THAT(steps(), ElementsAre(40, 50));
  remove_old_checkpoints(opened(), 2);
  EXPECT_THAT(steps(), ElementsAre(40, 50));
  remove_old_checkpoints(opened(), 0);
  EXPECT_THAT(names(), ElementsAre("notes.txt", checkpoint_name(60)));
}

TEST_F(CheckpointFolder, UnfinishedOnesStayWhereNoneIsWhole) {
  small(10, false);
  remove_old_checkpoints(opened(), 1);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(10)));
}

TEST_F(CheckpointFolder, FilesOfOthersStay) {
  small(10);
  small(20);
  folder_.write(checkpoint_name(10) + "/notes.txt", "mine");
  folder_.write(checkpoint_name(10) + "/rank-00000.safetensors.host.1.part", "a draft");
  folder_.write(checkpoint_name(10) + "/manifest.json.host.1.part", "a draft");
  remove_old_checkpoints(opened(), 1);
  EXPECT_THAT(steps(), ElementsAre(20));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(path(10)))
    left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, ElementsAre("notes.txt"));
}

TEST_F(CheckpointFolder, NothingBehindALinkIsRemoved) {
  const testing::TemporaryFolder elsewhere;
  small(10);
  small(30);
  fs::rename(path(10), elsewhere.path() / "kept");
  fs::create_directory_symlink(elsewhere.path() / "kept", path(10));
  small(20);
  fs::rename(path(20) / "rank-00001.safetensors", elsewhere.path() / "one");
  fs::create_symlink(elsewhere.path() / "one", path(20) / "rank-00001.safetensors");
  remove_old_checkpoints(opened(), 1);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(10), checkpoint_name(30)));
  EXPECT_TRUE(fs::is_symlink(path(10)));
  EXPECT_TRUE(fs::exists(elsewhere.path() / "one"));
  EXPECT_EQ(complaint([&] { Checkpoint(elsewhere.path() / "kept").verify(); }), "nothing");
}

TEST_F(CheckpointFolder, RemovesFromTheFolderThatWasOpened) {
  small(10);
  small(20);
  const OpenFolder folder(folder_.path());
  const fs::path moved = folder_.path().string() + "-moved";
  fs::rename(folder_.path(), moved);
  remove_old_checkpoints(folder, 1);
  EXPECT_EQ(checkpoints_in(moved).size(), 1u);
  fs::rename(moved, folder_.path());
  EXPECT_THAT(steps(), ElementsAre(20));
}

}  // namespace
}  // namespace ringside
