// `ringside checkpoint` over checkpoints that the test writes.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/base/json_fields.h"
#include "core/checkpoint/checkpoint.h"
#include "core/device/cpu/cpu_device.h"
#include "core/interchange/weights.h"
#include "core/models/models.h"
#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::Ended;
using ::testing::HasSubstr;

class CheckpointCommand : public ProgramTest {
 protected:
  static ModelConfig gpt() {
    ModelConfig config;
    config.layers = 1;
    config.heads = 2;
    config.width = 8;
    config.context = 16;
    return config;
  }
  static ModelConfig resnet() {
    ModelConfig config;
    config.kind = "resnet";
    config.layers = 10;
    config.filters = 4;
    return config;
  }
  static float parameter(std::int64_t i) { return static_cast<float>(i) * 0.5F - 100; }
  static std::vector<float> parameters(std::int64_t begin, std::int64_t end) {
    std::vector<float> out;
    for (std::int64_t i = begin; i < end; ++i) out.push_back(parameter(i));
    return out;
  }
  /// A checkpoint of two ranks, whose parameters are those of `replica`.
  void write(const ModelConfig& config, std::int64_t step, std::int64_t replica = -1,
             std::vector<HostRange> statistics = {}) const {
    const Model model = make_model(config, *device_);
    const std::int64_t count = model.parameter_count(), half = count / 2;
    const OpenFolder folder = OpenFolder(folder_.path()).inside("run");
    const OpenFolder checkpoint = folder.inside(checkpoint_name(step));
    Manifest manifest;
    manifest.step = step;
    manifest.parameters = count;
    manifest.program = "0.1 (test)";
    manifest.run = {{"scheme", "zero1"},
                    {"world", 2},
                    {"model", to_json(config)},
                    {"train", {{"precision", "bf16"}}}};
    const StateKey key{"parameters", replica};
    statistics.push_back({key, 0, parameters(0, half)});
    manifest.files = {write_rank_file(checkpoint, 0, statistics),
                      write_rank_file(checkpoint, 1,
                                      {{key, half, parameters(half, count)},
                                       {{"outer/error", 0}, 0, {1, 2, 3}},
                                       {{"outer/error", 1}, 0, {4, 5, 6}}})};
    write_manifest(checkpoint, manifest);
  }
  /// Compares a unit's part of a file of weights with the parameters that were written.
  void expect_weights(const ModelConfig& config, const std::string& file) const {
    const Model model = make_model(config, *device_);
    const auto weights = open_weights(path(file).string(), model, config);
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      const std::int64_t first = model.first_parameter(u), count = model.units[u]->layout().count();
      if (count == 0) continue;
      const Tensor out = device_->tensor({count}, MemoryKind::parameter);
      weights->write(*model.units[u], first, 0, out);
      std::vector<float> values(static_cast<std::size_t>(count));
      device_->read(out, std::as_writable_bytes(std::span(values)));
      EXPECT_EQ(values, parameters(first, first + count)) << model.units[u]->name();
    }
  }
  Ended checkpoint(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"checkpoint"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(all);
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
};

TEST_F(CheckpointCommand, ShowsTheNewestOfAFolder) {
  write(gpt(), 20);
  write(gpt(), 120);
  const Ended ended = checkpoint({"show", "run"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(
      ended.out,
      AllOf(HasSubstr("run/step-0000000120: 120 steps done, written by ringside 0.1 (test)"),
            HasSubstr("run: scheme zero1, world 2, model gpt with "),
            HasSubstr(" parameters, bf16\n"), HasSubstr("rank-00001.safetensors"),
            HasSubstr("3 values, of each of 2 replicas: 0 to 1\n"),
            HasSubstr("random numbers: functions of the seed and of counters, no state\n")));
  EXPECT_THAT(checkpoint({"show", "run/step-0000000020"}).out, HasSubstr(": 20 steps done"));
}

TEST_F(CheckpointCommand, VerifiesAllOfAFolder) {
  write(gpt(), 20);
  write(gpt(), 120);
  Ended ended = checkpoint({"verify", "run"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("step-0000000020: all digests of 2 files with 0.0"),
                               HasSubstr("step-0000000120: all digests")));
  const std::string file = "run/step-0000000020/rank-00001.safetensors";
  std::string text = folder_.read(file);
  text[text.size() - 5] = static_cast<char>(text[text.size() - 5] ^ 4);
  folder_.write(file, text);
  ended = checkpoint({"verify", "run"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("ringside: " + file + ": byte 0: the "));
  EXPECT_THAT(ended.out, HasSubstr("step-0000000120: all digests"));
}

TEST_F(CheckpointCommand, ConvertsParametersToWeights) {
  write(gpt(), 120);
  const Ended ended = checkpoint({"convert", "run", "--weights", "gpt.safetensors"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr(" after 120 steps, in fp32\n"));
  expect_weights(gpt(), "gpt.safetensors");
  EXPECT_TRUE(open_safetensors(path("gpt.safetensors").string())
                  .tensors.contains("transformer.h.0.attn.c_attn.weight"));
  write(gpt(), 121, 0);
  EXPECT_THAT(checkpoint({"convert", "run", "--weights", "zero.safetensors"}).out,
              HasSubstr(" parameters of replica 0 after 121 steps"));
  expect_weights(gpt(), "zero.safetensors");
}

/// Of a run that was really trained: the model with the weights alone has the same held-out loss.
TEST_F(CheckpointCommand, ConvertsATrainedRunToWeightsThatAreItsModel) {
  small_gpt(16, 16,
            "steps = 12\nglobal_batch = 4\nevaluate_every = 12\n[checkpoint]\npath = \"of\"\n");
  const auto losses_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", "trial.toml", "--scheme", "zero2", "--world", "2"};
    for (const std::string& one : more) all.insert(all.end(), {"--set", one});
    const Ended ended = run(all);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended.out;
  };
  const auto held_out = [](const std::string& out) {
    const std::size_t at = out.find("held-out");
    return at == std::string::npos ? out : out.substr(at, out.find(" after", at) - at);
  };
  const std::string trained = losses_of({});
  ASSERT_EQ(checkpoint({"convert", "of", "--weights", "w.safetensors"}).status, 0);
  // A step that changes nothing, and then the evaluation.
  const std::string plain =
      losses_of({"checkpoint.path=\"\"", "train.initial_weights=w.safetensors", "train.steps=1",
                 "train.warmup=0", "train.evaluate_every=1", "optimizer.lr=1e-30",
                 "optimizer.weight_decay=0"});
  EXPECT_EQ(held_out(plain), held_out(trained));
}

TEST_F(CheckpointCommand, ConvertsTheMeansOfRunningStatistics) {
  write(resnet(), 3);
  EXPECT_THAT(checkpoint({"convert", "run", "--weights", "a.safetensors"}).out,
              HasSubstr("; the checkpoint lacks the running statistics of batch norms"));
  expect_weights(resnet(), "a.safetensors");

  std::size_t count = 0;
  const Model model = make_model(resnet(), *device_);
  for (const auto& unit : model.units)
    for (const Unit::Statistic& one : unit->statistics())
      count += static_cast<std::size_t>(one.values.count());
  std::vector<HostRange> statistics = {{{"batch_norm_statistics", 0}, 0, {}},
                                       {{"batch_norm_statistics", 1}, 0, {}}};
  for (std::size_t i = 0; i < count; ++i) {
    statistics[0].values.push_back(static_cast<float>(i));
    statistics[1].values.push_back(static_cast<float>(i) + 1);
  }
  write(resnet(), 4, -1, statistics);
  EXPECT_THAT(checkpoint({"convert", "run", "--weights", "b.safetensors"}).out,
              HasSubstr(" after 4 steps, in fp32\n"));
  const auto weights = open_weights(path("b.safetensors").string(), model, resnet());
  float expected = 0.5F;
  for (const auto& unit : model.units) {
    if (unit->statistics().empty()) continue;
    weights->write_statistics(*unit);
    for (const Unit::Statistic& one : unit->statistics()) {
      std::vector<float> values(static_cast<std::size_t>(one.values.count()));
      device_->read(one.values, std::as_writable_bytes(std::span(values)));
      for (const float value : values) EXPECT_EQ(value, expected++) << unit->name();
    }
  }
}

TEST_F(CheckpointCommand, RefusesWhatIsNoCheckpoint) {
  write(gpt(), 120);
  fs::remove(path("run/step-0000000120/manifest.json"));
  for (const char* command : {"show", "verify"}) {
    const Ended ended = checkpoint({command, "run"});
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(
        ended.err,
        "ringside: run: it has no whole checkpoint; name a checkpoint, or a folder of them\n");
    EXPECT_THAT(checkpoint({command, "nowhere"}).err,
                HasSubstr("nowhere: there is no such folder"));
  }
  EXPECT_EQ(checkpoint({"convert", "run"}).status, 2);
  EXPECT_EQ(checkpoint({"convert", "run", "--weights", "w.safetensors"}).status, 2);
  EXPECT_FALSE(fs::exists(path("w.safetensors")));
}

}  // namespace
}  // namespace ringside
