#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/results/data_state.h"
#include "tests/data/data_files.h"
#include "tests/support/gzipped.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;

/// Tests with data files of every kind. They have two classes, images of 4x4 pixels (32x32 in the
/// files of CIFAR), and tokens below 60.
class DataRows : public ::testing::Test {
 protected:
  DataRows() {
    model_.context = 8;
    model_.vocabulary = 300;
    model_.masked = 2;
    model_.classes = 2;
  }

  DataState state() const {
    RunPlan plan;
    plan.data = data_;
    return data_state(plan);
  }

  void set(const std::string& kind) {
    data_.kind = kind;
    data_.path = {folder_.path().string()};
    model_.image = kind == "idx" ? 4 : 32;
    model_.channels = kind == "idx" ? 1 : 3;
    if (kind == "text") data_.path = {folder_.write("a.txt", std::string(200, 'a'))};
    if (kind == "tokens")
      folder_.write("a.bin", testing::token_file(std::vector<std::uint16_t>(200, 59)));
    if (kind == "idx") {
      folder_.write("t10k-images-idx3-ubyte",
                    testing::idx(0x803, {20, 4, 4}, std::string(320, 'p')));
      folder_.write("t10k-labels-idx1-ubyte", testing::idx(0x801, {20}, std::string(20, '\1')));
    }
    const std::string image(3072, 'p');
    if (kind == "cifar10")
      data_.path = {folder_.write("data_batch_1.bin", '\1' + image + '\1' + image)};
    if (kind == "cifar100") folder_.write("train.bin", "\1\1" + image + "\1\1" + image);
    if (kind.starts_with("synthetic")) data_.path = {};
  }
  Datasets make(Task task) const { return find_dataset(data_.kind).make(data_, model_, task); }

  testing::TemporaryFolder folder_;
  DataConfig data_;
  ModelConfig model_;
};

const std::vector<Task> all_tasks = {Task::every_token, Task::last_token,     Task::masked_tokens,
                                     Task::image_class, Task::caption_tokens, Task::target_tokens};

TEST_F(DataRows, EachServesItsTasksAndRefusesTheOthersInALine) {
  for (const DatasetInfo& row : dataset_rows()) {
    set(std::string(row.name));
    int served = 0;
    for (const Task task : all_tasks) {
      const std::string said = complaint([&] {
        const Datasets data = make(task);
        ASSERT_TRUE(data.training);
        data.training->check();
        EXPECT_EQ(data.training->input_dtype(), input_dtype(task));
        EXPECT_EQ(data.training->target_parts().size(), task == Task::masked_tokens ? 2u : 1u);
        if (task == Task::masked_tokens) {
          EXPECT_EQ(data.training->input_shape(), Shape({2 * model_.context + model_.masked}));
        }
        if (task == Task::caption_tokens) {
          EXPECT_EQ(data.training->input_shape(), Shape({32 * 32 * 3 + model_.context}));
        }
        if (task == Task::target_tokens) {
          EXPECT_EQ(data.training->input_shape(), Shape({2 * model_.context}));
          EXPECT_EQ(data.training->target_shape(), Shape({model_.context}));
        }
      });
      if (said == "nothing")
        ++served;
      else
        EXPECT_THAT(said, HasSubstr("is for models that predict")) << row.name;
    }
    EXPECT_GT(served, 0) << row.name;
    EXPECT_LT(served, 4) << row.name;
  }
}

TEST_F(DataRows, HoldOutAShareOrTheFilesThatAreThereForIt) {
  set("idx");
  Datasets data = make(Task::image_class);
  EXPECT_EQ(data.training->size(), 18);
  EXPECT_EQ(data.held_out->size(), 2);
  folder_.write("train-images-idx3-ubyte", testing::idx(0x803, {5, 4, 4}, std::string(80, 'p')));
  folder_.write("train-labels-idx1-ubyte", testing::idx(0x801, {5}, std::string(5, '\1')));
  data = make(Task::image_class);
  EXPECT_EQ(data.training->size(), 5);
  EXPECT_EQ(data.held_out->size(), 20);
  data_.holdout = 0;
  EXPECT_FALSE(make(Task::image_class).held_out);
}

TEST_F(DataRows, RefuseImagesThatTheModelDoesNotTake) {
  set("idx");
  model_.image = 28;
  EXPECT_THAT(complaint([&] { make(Task::image_class); }),
              HasSubstr("the images are 4x4x1, the model takes 28x28x1; set model.image = 4 and "
                        "model.channels = 1"));
}

TEST_F(DataRows, SayHowLargeAVocabularyTextNeeds) {
  set("text");
  model_.vocabulary = 258;
  EXPECT_NO_THROW(make(Task::every_token));
  EXPECT_THAT(complaint([&] { make(Task::masked_tokens); }), HasSubstr("set it to 259"));
}

TEST_F(DataRows, AugmentTrainingImagesAlone) {
  set("cifar10");
  data_.augment = true;
  data_.holdout = 0.5;
  const Datasets data = make(Task::image_class);
  const auto changed = [](const Dataset& set) {
    auto sample = testing::sample_of<float>(set, 0);
    const auto before = sample.input;
    set.augment(std::as_writable_bytes(std::span(sample.input)), 0);
    return sample.input != before;
  };
  EXPECT_TRUE(changed(*data.training));
  EXPECT_FALSE(changed(*data.held_out));
}

TEST_F(DataRows, EveryFileThatIsReadIsWatched) {
  for (const char* kind : {"text", "tokens", "idx", "cifar10", "cifar100"}) {
    set(kind);
    const DataState before = state();
    EXPECT_EQ(before.files.size(), data_.kind == "idx" ? 2u : 1u) << kind;
    for (const auto& file : before.files) {
      const DataState now = state();
      const std::string name = std::filesystem::path(file.path).filename().string();
      folder_.write(name, folder_.read(name) + "x");
      EXPECT_EQ(first_change(now, state()), file.path) << kind;
    }
  }
  set("synthetic-images");
  EXPECT_TRUE(state().files.empty());
}

TEST_F(DataRows, ALineSaysWhatIsReadAndWhatIsLeftOut) {
  set("text");
  EXPECT_TRUE(lines_about(state()).empty()) << "one file that was named";
  folder_.write("b.txt", std::string(1900, 'b'));
  folder_.write("words.zip", "PK\x03\x04");
  std::filesystem::create_symlink("a.txt", folder_.path() / "link");
  std::filesystem::create_directory(folder_.path() / "build-1");
  data_.path = {folder_.path().string()};
  const DataState there = state();
  EXPECT_EQ(lines_about(there),
            std::vector<std::string>{
                "Data: 2 files, 2.1 kB (text: " + data_.path[0] +
                "); left out: folder named .*, build* or results: 1 (build-1); link: 1 (link); a "
                "ZIP archive: 1 (4 bytes, words.zip)"});
  const auto kept = sources_to_json(there);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].at("source"), "text: " + data_.path[0]);
  EXPECT_EQ(kept[0].at("files"), 2);
  EXPECT_EQ(kept[0].at("bytes"), 2100);
  EXPECT_EQ(kept[0].at("left_out")[2],
            (nlohmann::ordered_json{
                {"why", "a ZIP archive"}, {"files", 1}, {"bytes", 4}, {"first", "words.zip"}}));
}

TEST_F(DataRows, ALineSaysWhatNamesHoldOut) {
  set("tokens");
  folder_.write("b_val.bin", testing::token_file(std::vector<std::uint16_t>(100, 59)));
  folder_.write("link.txt", "");
  EXPECT_EQ(lines_about(state()),
            std::vector<std::string>{
                "Data: 2 files, 2.6 kB (tokens: " + data_.path[0] +
                "); names with the part val are held out: 1 file, 1.2 kB; left out: name of no "
                "file of the set: 1 (link.txt)"});
  set("synthetic");
  EXPECT_TRUE(lines_about(state()).empty());
}

TEST_F(DataRows, CompressedFilesThatAllRanksOfAHostCannotHoldAreRefused) {
  set("text");
  data_.path = {folder_.write("a.txt.gz", testing::gzipped(std::string(50'000'000, 'a')))};
  ExperimentConfig config;
  config.name = "trial";
  config.data = data_;
  config.model = model_;
  config.train.global_batch = 2;
  config.train.micro_batch = 2;
  RunPlan plan = plan_training(config, "single", 1);
  EXPECT_NO_THROW(check_inputs(plan));
  plan.ranks.resize(most_ranks);
  EXPECT_THAT(complaint([&] { check_inputs(plan); }),
              HasSubstr("data.path: compressed files take 100.0 MB unpacked in each of 4096 ranks, "
                        "and memory may hold"))
      << "of all of them it holds 410 GB";
}

TEST_F(DataRows, WhatIsNoFileIsRefusedAtOnce) {
  const std::string pipe = folder_.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const char* kind : {"text", "tokens", "idx", "cifar10", "cifar100"}) {
    set(kind);
    data_.path = {pipe};
    if (data_.kind == "idx") data_.path.push_back(pipe);
    EXPECT_THAT(complaint([&] {
                  make(data_.kind == "text" || data_.kind == "tokens" ? Task::every_token
                                                                      : Task::image_class);
                }),
                HasSubstr(pipe))
        << kind;
  }
}

TEST_F(DataRows, AFileThatChangesWhileItIsReadIsNamed) {
  for (const char* kind : {"text", "tokens", "idx", "cifar10", "cifar100"}) {
    set(kind);
    const bool tokens = data_.kind == "text" || data_.kind == "tokens";
    const Datasets data = make(tokens ? Task::every_token : Task::image_class);
    std::vector<std::byte> input(
        static_cast<std::size_t>(data.training->input_shape().count() *
                                 static_cast<std::int64_t>(size_of(data.training->input_dtype()))));
    std::vector<std::int32_t> target(
        static_cast<std::size_t>(data.training->target_shape().count()));
    data.training->read(1, input, target);
    const std::string file = state().files.front().path;
    std::filesystem::resize_file(file, 0);
    EXPECT_THAT(complaint([&] { data.training->read(1, input, target); }),
                HasSubstr(file + " changed while it was in use"));
  }
}

TEST_F(DataRows, OnlyWhatReadsAnyFileMustLieApartFromResults) {
  set("tokens");
  EXPECT_NO_THROW(check_apart(data_, folder_.path() / "out"));
  set("text");
  data_.path = {folder_.path().string()};
  EXPECT_THROW(check_apart(data_, folder_.path() / "out"), Error);
}

TEST_F(DataRows, BadLabelsAndTokensAreFoundBeforeTraining) {
  ExperimentConfig config;
  config.name = "trial";
  config.train.global_batch = 2;
  config.train.micro_batch = 2;
  set("tokens");
  config.data = data_;
  config.model = model_;
  config.model.vocabulary = 60;
  EXPECT_NO_THROW(check_inputs(plan_training(config, "single", 1)));
  config.model.vocabulary = 59;
  EXPECT_THAT(complaint([&] { check_inputs(plan_training(config, "single", 1)); }),
              HasSubstr("a.bin: at byte 1024: token 59 is beyond the vocabulary of 59"));
}

TEST(Mnist, TrialDataIsReadWhereItIs) {
  const std::filesystem::path folder =
      std::filesystem::path(RINGSIDE_CLUSTERS) / "../../../shared/data/mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  DataConfig data;
  data.kind = "idx";
  data.path = {folder.string()};
  ModelConfig model;
  model.image = 28;
  model.channels = 1;
  const Datasets sets = find_dataset("idx").make(data, model, Task::image_class);
  EXPECT_EQ(sets.training->size(), 9000);
  EXPECT_EQ(sets.held_out->size(), 1000);
  sets.training->check();
  sets.held_out->check();
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 1000; ++i)
    for (const float value : testing::sample_of<float>(*sets.training, i).input) {
      sum += value;
      squares += value * value;
    }
  EXPECT_NEAR(sum / 784000, 0, 0.05);
  EXPECT_NEAR(squares / 784000, 1, 0.1);
  EXPECT_EQ(testing::sample_of<float>(*sets.training, 0).target[0], 7);
}

}  // namespace
}  // namespace ringside::runner
