#include "core/interchange/llmc.h"

#include <gtest/gtest.h>

#include <array>

#include "core/device/cpu/cpu_device.h"
#include "core/interchange/weights.h"
#include "core/models/gpt.h"
#include "tests/interchange/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

using testing::complaint;
using testing::contains;
using testing::TemporaryFolder;

constexpr std::int64_t layers = 2, width = 8, positions = 6, vocabulary = 11, rows = 128;

/// Tests with a model file in which value number i of the data is i.
class LlmcModel : public ::testing::Test {
 protected:
  LlmcModel() {
    config_ = {.kind = "gpt", .layers = layers, .heads = 2, .width = width, .context = positions};
    config_.vocabulary = vocabulary;
    config_.tied = true;
    header_ = {20240326, 3, positions, vocabulary, layers, 2, width, rows};
    const std::int64_t block = 12 * width * width + 13 * width;
    count_ = static_cast<std::size_t>((rows + positions) * width + layers * block + 2 * width);
  }

  std::string write(std::size_t count) const {
    std::string out(reinterpret_cast<const char*>(header_.data()), sizeof header_);
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(i);
      const bf16 half = to_bf16(value);
      out.append(header_[1] == 3 ? reinterpret_cast<const char*>(&value)
                                 : reinterpret_cast<const char*>(&half),
                 header_[1] == 3 ? 4 : 2);
    }
    return folder_.write("model.bin", out);
  }
  std::string refused() const { return refused(count_); }
  std::string refused(std::size_t count) const {
    const std::string path = write(count);
    return complaint([&] { open_llmc_model(path, config_); });
  }
  /// The values that a parameter of a unit gets when a complete file is loaded.
  std::vector<float> loaded(std::size_t unit, const std::string& parameter) {
    const Model model = make_gpt(config_, *device_);
    const auto values = open_weights(write(count_), model, config_);
    for (const Parameter& p : model.units[unit]->layout().parameters()) {
      if (p.name != parameter) continue;
      const Tensor out = device_->tensor({p.shape.count()}, MemoryKind::parameter);
      values->write(*model.units[unit], 0, p.begin, out);
      return {out.data<float>(), out.data<float>() + out.count()};
    }
    ADD_FAILURE() << parameter;
    return {};
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  TemporaryFolder folder_;
  ModelConfig config_;
  std::array<std::int32_t, 256> header_{};
  std::size_t count_;
};

TEST_F(LlmcModel, IsReadInItsOrderAndCutToItsVocabulary) {
  constexpr std::int64_t tables = (rows + positions) * width;
  const auto tokens = loaded(0, "table.tokens");
  EXPECT_EQ(tokens.size(), vocabulary * width);
  EXPECT_EQ(tokens[width + 1], width + 1);
  EXPECT_EQ(loaded(0, "table.positions")[0], rows * width);
  EXPECT_EQ(loaded(1, "norm1.weight")[0], tables);
  EXPECT_EQ(loaded(2, "norm1.weight")[0], tables + width);
  EXPECT_EQ(loaded(2, "attention.qkv.weight")[5],
            tables + 2 * layers * width + 3 * width * width + 5)
      << "[out, in], as here";
  EXPECT_EQ(loaded(3, "norm.bias")[width - 1], static_cast<float>(count_ - 1));
}

TEST_F(LlmcModel, IsReadInBf16) {
  header_[1] = 5;
  EXPECT_EQ(loaded(0, "table.positions")[0], rows * width);
}

TEST_F(LlmcModel, IsRefusedByNameAndByte) {
  EXPECT_EQ(refused(), "nothing");
  header_[0] = 20240520;
  EXPECT_TRUE(contains(refused(), "byte 0: magic number 20240520"));
  header_[0] = 20240326;
  header_[1] = 1;
  EXPECT_TRUE(contains(refused(), "byte 4: version 1"));
  header_[1] = 3;
  header_[4] = 3;
  EXPECT_TRUE(
      contains(refused(), "byte 16: the model in the file has 3 layers, but model.layers = 2"));
  header_[4] = -1;
  EXPECT_TRUE(
      contains(refused(), "byte 16: the number of layers is -1, but it must lie between 1 and"));
  header_[4] = layers;
  header_[7] = 10;
  EXPECT_TRUE(
      contains(refused(), "byte 28: the table of tokens has 10 rows, but the vocabulary has 11"));
  header_[7] = rows;
  EXPECT_TRUE(contains(refused(count_ - 1),
                       "tensor lnfb begins here and needs 32 bytes, but the file ends at"));
  EXPECT_TRUE(contains(refused(count_ + 1), "the model ends here, but the file ends at"));
  const std::string cut = folder_.write("cut.bin", std::string(1000, 'x'));
  EXPECT_TRUE(contains(complaint([&] { open_llmc_model(cut, config_); }), "byte 1000"));
}

TEST_F(LlmcModel, WantsTheEpsilonAndActivationOfGpt2) {
  config_.epsilon = 1e-5;
  config_.activation = ModelActivation::gelu_tanh;
  EXPECT_EQ(refused(), "nothing");
  config_.activation = ModelActivation::gelu;
  EXPECT_TRUE(contains(refused(),
                       "model.bin: llm.c computes with activation = gelu_tanh, but "
                       "model.activation = gelu"));
  config_.epsilon = 1e-6;
  EXPECT_TRUE(
      contains(refused(), "llm.c computes with epsilon = 1e-05, but model.epsilon = 1e-06"));
}

TEST_F(LlmcModel, WantsATiedModel) {
  config_.tied = false;
  const Model model = make_gpt(config_, *device_);
  const std::string path = write(count_);
  EXPECT_TRUE(contains(complaint([&] { open_weights(path, model, config_); }), "model.tied"));
}

}  // namespace
}  // namespace ringside
