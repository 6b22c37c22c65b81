#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "core/base/hash.h"
#include "core/interchange/safetensors.h"
#include "tests/checkpoint/written_checkpoint.h"

namespace ringside {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using testing::saved_range;
using testing::saved_value;

class RoundTrip : public testing::WrittenCheckpoint {
 protected:
  void expect_values(const Checkpoint& checkpoint, const StateKey& key, std::int64_t begin,
                     std::int64_t end) const {
    std::vector<float> out(static_cast<std::size_t>(end - begin));
    checkpoint.read(key, begin, out);
    for (std::int64_t i = begin; i < end; ++i)
      ASSERT_EQ(out[static_cast<std::size_t>(i - begin)], saved_value(key, i))
          << key.name << " " << i;
  }
};

TEST_F(RoundTrip, ReadsWhateverRangeFromWhateverFilesHaveIt) {
  write();
  const Checkpoint checkpoint(path());
  expect_values(checkpoint, weights, 0, parameters);
  expect_values(checkpoint, moment, 0, 120'000);
  expect_values(checkpoint, residual, 0, 17);
  expect_values(checkpoint, weights, 600'000, 600'003);  // a value of each of three files
  for (std::uint64_t round = 0; round < 200; ++round) {
    const auto draw = [&](std::uint64_t which, std::int64_t below) {
      return static_cast<std::int64_t>(random_bits(which, Stream::synthetic_data, round) %
                                       static_cast<std::uint64_t>(below));
    };
    const std::int64_t begin = draw(1, 120'000);
    expect_values(checkpoint, moment, begin, begin + draw(2, 120'001 - begin));
  }
}

TEST_F(RoundTrip, TellsWhatWasSaid) {
  const Manifest written = write();
  const Checkpoint checkpoint(path());
  const Manifest& read = checkpoint.manifest();
  EXPECT_EQ(read.step, step);
  EXPECT_EQ(read.parameters, parameters);
  EXPECT_EQ(read.program, written.program);
  EXPECT_EQ(read.run, written.run);
  EXPECT_EQ(read.scalars, written.scalars);
  EXPECT_EQ(read.scalars.at("third").get<double>(), 1.0 / 3);
  ASSERT_EQ(read.files.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(to_json(read.files[i]), to_json(written.files[i])) << i;
  EXPECT_EQ(checkpoint.path(), path());
  EXPECT_EQ(checkpoint.state(), (std::map<StateKey, std::int64_t>{
                                    {weights, parameters}, {moment, 120'000}, {residual, 17}}));
}

TEST_F(RoundTrip, FilesGoThroughMessagesOfRanks) {
  for (const CheckpointFile& file : write().files) {
    const nlohmann::json sent = to_json(file);
    EXPECT_EQ(to_json(checkpoint_file_from_json(sent)), to_json(file));
    EXPECT_EQ(to_json(checkpoint_file_from_json(nlohmann::json::parse(sent.dump()))),
              to_json(file));
  }
}

TEST_F(RoundTrip, EveryFileIsSafetensorsWithADigestForEachBlock) {
  for (const CheckpointFile& one : write().files) {
    const StoredTensors stored = open_safetensors(file(one.name));
    EXPECT_EQ(stored.tensors.size(), one.ranges.size());
    EXPECT_EQ(stored.metadata.at("format"), "ringside checkpoint");
    const std::string text = folder_.read(checkpoint_name(step) + "/" + one.name);
    ASSERT_EQ(static_cast<std::int64_t>(text.size()), one.bytes);
    std::vector<std::string> digests;
    for (std::size_t at = 0; at < text.size(); at += digest_block) {
      Hash hash;
      hash.update(
          std::as_bytes(std::span(text).subspan(at, std::min(digest_block, text.size() - at))));
      digests.push_back(hash.digest());
    }
    EXPECT_EQ(digests, one.digests);
  }
  const auto names = open_safetensors(file("rank-00012.safetensors")).tensors;
  EXPECT_TRUE(names.contains("parameters[600002:700000]"));
  EXPECT_TRUE(names.contains("3/outer/error[0:10]"));
}

/// Files whose ends lie at, before and behind those of blocks of the disk, and of the pieces that
/// are written at once. What goes past the cache of files, and what does not, is in its place.
TEST_F(RoundTrip, AFileOfAnySizeHasAllOfItsBytes) {
  constexpr std::int64_t piece = std::int64_t{2} << 20;
  const auto write_of = [&](std::int64_t values) {
    const OpenFolder checkpoint = OpenFolder(folder_.path()).inside(checkpoint_name(step));
    Manifest manifest = empty_manifest();
    manifest.files = {write_rank_file(
        checkpoint, 0, {saved_range(weights, 0, 3), saved_range(moment, 0, values)})};
    write_manifest(checkpoint, manifest);
    return manifest.files[0].bytes;
  };
  const std::int64_t header = write_of(1'000'000) - 4 * 1'000'003;
  for (const std::int64_t bytes : {piece - 4, piece, piece + 4, piece + 4096, 2 * piece - 4096,
                                   2 * piece, 2 * piece + 4, 5 * piece / 2 + 4}) {
    const std::int64_t values = (bytes - header) / 4 - 3;
    const std::int64_t written = write_of(values);
    EXPECT_EQ(written / 4, bytes / 4);  // the header has as many digits in all of them
    EXPECT_EQ(static_cast<std::int64_t>(std::filesystem::file_size(file("rank-00000.safetensors"))),
              written);
    EXPECT_EQ(verdict(), "nothing");
    expect_values(Checkpoint(path()), weights, 0, 3);
    expect_values(Checkpoint(path()), moment, 0, values);
  }
}

TEST_F(RoundTrip, ValuesThatNoFileHasAreNamed) {
  write();
  const Checkpoint checkpoint(path());
  std::vector<float> out(20);
  const auto error = [&](const StateKey& key, std::int64_t begin) {
    return complaint([&] { checkpoint.read(key, begin, out); });
  };
  EXPECT_EQ(error(residual, 0), path().string() +
                                    ": no file of the checkpoint has value 17 of outer/error of "
                                    "replica 3");
  EXPECT_THAT(error(weights, -1), HasSubstr("has value -1 of parameters"));
  EXPECT_THAT(error({"parameters", 0}, 0), HasSubstr("has value 0 of parameters of replica 0"));
  EXPECT_THAT(error({"second_moment"}, 0), HasSubstr("has value 0 of second_moment"));
  EXPECT_EQ(error(weights, parameters - 20), "nothing");
}

TEST_F(RoundTrip, ManyThreadsReadOneCheckpointThatMoved) {
  write();
  Checkpoint first(path());
  const Checkpoint checkpoint = std::move(first);
  std::vector<std::jthread> threads;
  for (std::int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] { expect_values(checkpoint, moment, t * 30'000, 120'000); });
}

TEST_F(RoundTrip, ARangeThatOverlapsAnotherIsNeverWritten) {
  const OpenFolder checkpoint = OpenFolder(folder_.path()).inside(checkpoint_name(step));
  const auto error = [&](std::vector<HostRange> ranges) {
    return complaint([&] { write_rank_file(checkpoint, 0, ranges); });
  };
  EXPECT_THAT(error({{weights, 0, {1, 2}}, {weights, 1, {3}}}),
              HasSubstr("rank-00000.safetensors: parameters[0:2] of rank-00000.safetensors and "
                        "parameters[1:2] of rank-00000.safetensors overlap"));
  EXPECT_THAT(error({{{"3/parameters"}, 0, {1}}}),
              HasSubstr("state cannot be named \"3/parameters\": a name has at most"));
  EXPECT_THAT(error({{weights, -1, {1}}}), HasSubstr("begin -1 and count 1 are no range"));
  EXPECT_TRUE(std::filesystem::is_empty(path()));

  Manifest manifest = empty_manifest();
  manifest.files = {
      write_rank_file(checkpoint, 0, {{weights, 0, {1, 2}}}),
      write_rank_file(checkpoint, 1, {{weights, 2, {3}}, {{"parameters", 0}, 0, {1}}}),
      write_rank_file(checkpoint, 2, {{weights, 1, {3}}})};
  EXPECT_THAT(complaint([&] { write_manifest(checkpoint, manifest); }),
              HasSubstr("manifest.json: parameters[0:2] of rank-00000.safetensors and "
                        "parameters[1:2] of rank-00002.safetensors overlap"));
  EXPECT_FALSE(std::filesystem::exists(file("manifest.json")));
  EXPECT_THAT(verdict(), HasSubstr("this is no whole checkpoint: it has no manifest.json"));
}

TEST_F(RoundTrip, AFileThatTheFolderDoesNotShowIsMissing) {
  const Manifest written = write();
  const OpenFolder checkpoint(path());
  EXPECT_EQ(missing_file(checkpoint, written), "");
  std::filesystem::resize_file(file(written.files[1].name), 100);
  EXPECT_EQ(missing_file(checkpoint, written), written.files[1].name);
  std::filesystem::rename(file(written.files[0].name), file("elsewhere"));
  EXPECT_EQ(missing_file(checkpoint, written), written.files[0].name);
  std::filesystem::create_symlink("elsewhere", file(written.files[0].name));
  EXPECT_EQ(missing_file(checkpoint, written), written.files[0].name) << "a link is no file";
}

TEST_F(RoundTrip, ARankThatServesHasAFileOfEachPart) {
  const OpenFolder checkpoint = OpenFolder(folder_.path()).inside(checkpoint_name(step));
  Manifest manifest = empty_manifest();
  manifest.files = {write_rank_file(checkpoint, 3, {{{"statistics"}, 0, {7}}}),
                    write_rank_file(checkpoint, 3, {{weights, 0, {1, 2}}}, RankPart::server)};
  EXPECT_EQ(manifest.files[0].name, "rank-00003.safetensors");
  EXPECT_EQ(manifest.files[1].name, "rank-00003-server.safetensors");
  write_manifest(checkpoint, manifest);
  EXPECT_EQ(verdict(), "nothing");
  std::vector<float> values(2);
  Checkpoint(path()).read(weights, 0, values);
  EXPECT_EQ(values, (std::vector<float>{1, 2}));

  // Both are the checkpoint's own files, and go with it.
  remove_old_checkpoints(OpenFolder(folder_.path()), 0);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(RoundTrip, ARankWithoutValuesMayHaveAFile) {
  const OpenFolder checkpoint = OpenFolder(folder_.path()).inside(checkpoint_name(step));
  Manifest manifest = empty_manifest();
  manifest.files = {write_rank_file(checkpoint, 0, {{weights, 9, {}}})};
  write_manifest(checkpoint, manifest);
  EXPECT_EQ(verdict(), "nothing");
  EXPECT_TRUE(Checkpoint(path()).state().empty());
}

}  // namespace
}  // namespace ringside
