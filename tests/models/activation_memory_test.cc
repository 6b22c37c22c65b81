// The tensors that a block keeps for backward, against the published formula: s * b * h * (34 + 5 *
// a * s / h) bytes for s positions, b samples, width h and a heads in 16 bits (Korthikanti et al.
// 2022, "Reducing Activation Recomputation in Large Transformer Models", equation 1). Of these,
// softmax, its dropout and their operands are 5 * a * s^2 * b, which the paper's selective
// recomputation leaves out, so that 34 * s * b * h remain. With the inputs of blocks alone it is 2
// * s * b * h (its equation for full recomputation).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/models/cases.h"
#include "tests/support/manual_device.h"

namespace ringside {
namespace {

/// Knows the sizes of all activations that are held. Computes nothing.
class HoldingDevice final : public testing::ManualDevice {
 public:
  HoldingDevice() {
    for_each_slot(kernels_,
                  []<class Op>(std::string_view, Kernel<Op>& slot) { slot = [](const Op&) {}; });
  }
  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override {
    if (kind != MemoryKind::activation) return adopt(nullptr, bytes, kind, [] {});
    held.push_back(static_cast<std::int64_t>(bytes));
    return adopt(nullptr, bytes, kind, [this, bytes] {
      held.erase(std::find(held.begin(), held.end(), static_cast<std::int64_t>(bytes)));
    });
  }
  void write(const Tensor&, std::span<const std::byte>) override {}
  bool has_values() const override { return false; }
  const Kernels& kernels() const override { return kernels_; }

  std::vector<std::int64_t> held{};

 private:
  Kernels kernels_;
};

constexpr std::int64_t b = 3, s = 10, h = 12, a = 6, layers = 4, vocabulary = 29;

ModelConfig config_of(const std::string& kind) {
  return {.kind = kind,
          .layers = layers,
          .heads = a,
          .width = h,
          .context = s,
          .vocabulary = vocabulary,
          .dropout = kind == "llama" ? 0 : 0.1,
          .masked = 4};
}

/// Forwards as train.recompute = "none", "attention" and "full" ask for them; with the last, a
/// trainer holds the inputs of units.
constexpr Pass none = keeping, full = looking;
constexpr Pass attention = [] {
  Pass pass = keeping;
  pass.keep_attention = false;
  return pass;
}();

/// A model in bf16 after a forward.
class Kept {
 public:
  explicit Kept(const ModelConfig& config, const Pass& pass = none)
      : model_(make_model(config, device_)), own_(model_) {
    Tensor x = input_of(config, model_, device_, b, 1);
    std::vector<Tensor> ranges;
    for (const auto& unit : model_.units) {
      const Shape shape{unit->layout().count()};
      ranges.push_back(device_.tensor(shape, MemoryKind::parameter, DType::bf16));
      unit->bind(ranges.back(), {});
      if (!pass.keep) inputs_.push_back(x);
      x = unit->forward(x, pass, own_.saved[held_.size()]);
      auto after = device_.held;
      std::sort(after.begin(), after.end());
      held_.push_back(after);
    }
  }

  /// The sizes of what a block adds to what is held. What it returns is what the next one gets, so
  /// that counts as the next block's input, and its own input was counted before.
  std::vector<std::int64_t> of_block(std::size_t unit = 2) const {
    std::vector<std::int64_t> out;
    std::set_difference(held_[unit].begin(), held_[unit].end(), held_[unit - 1].begin(),
                        held_[unit - 1].end(), std::back_inserter(out));
    return out;
  }
  std::int64_t all() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : held_.back()) sum += bytes;
    return sum;
  }

 private:
  HoldingDevice device_;
  Model model_;
  testing::MicroBatch own_;
  std::vector<Tensor> inputs_;
  std::vector<std::vector<std::int64_t>> held_;  // after each unit, sorted
};

std::int64_t sum_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  return sum;
}

constexpr std::int64_t sbh = s * b * h;
constexpr std::int64_t log_sums = 4 * a * s * b;  // fp32, of each row of scores

/// The formula's 34 without the two masks of dropout, which are drawn again, are 32.
TEST(ActivationMemory, OfABlockOfGptIsThePublishedOneWithoutMasksAndScores) {
  const auto kept = Kept(config_of("gpt")).of_block();
  EXPECT_THAT(kept, ::testing::UnorderedElementsAre(
                        2 * sbh,                        // input of norm and residual
                        2 * sbh, 4 * s * b, 4 * s * b,  // norm1: output, mean, rstd
                        6 * sbh, log_sums, 2 * sbh,     // q, k, v; attention
                        2 * sbh,                        // residual behind attention
                        2 * sbh, 4 * s * b, 4 * s * b,  // norm2
                        8 * sbh, 8 * sbh));             // before and after GELU
  EXPECT_EQ(sum_of(kept), (34 - 2) * sbh + 16 * s * b + log_sums);
}

TEST(ActivationMemory, OfABlockOfBertIsThatOfGpt) {
  EXPECT_EQ(sum_of(Kept(config_of("bert")).of_block()), 32 * sbh + 16 * s * b + log_sums);
}

/// Fewer heads of keys and values, three matrices in the MLP, and no means.
TEST(ActivationMemory, OfABlockOfLlamaFollowsItsHeadsAndItsHiddenElements) {
  ModelConfig config = config_of("llama");
  config.own<LlamaOptions>().kv_heads = 2;
  config.hidden = 20;
  constexpr std::int64_t heads = s * b * (h + 2 * 2 * h / a), hidden = s * b * 20;
  const auto kept = Kept(config).of_block();
  EXPECT_THAT(
      kept, ::testing::UnorderedElementsAre(2 * sbh, 2 * sbh, 4 * s * b,   // norm1
                                            2 * heads, log_sums, 2 * sbh,  // q, k, v; attention
                                            2 * sbh, 2 * sbh, 4 * s * b,   // norm2
                                            4 * hidden, 2 * hidden));  // gates and values; products
  EXPECT_EQ(sum_of(kept), 10 * sbh + 2 * heads + 6 * hidden + 8 * s * b + log_sums);
}

/// Heads may be wider than the width divided by their number. Queries are apart from keys and
/// values.
TEST(ActivationMemory, OfABlockOfT5FollowsItsHeadsAndItsHiddenElements) {
  ModelConfig config = config_of("t5");
  config.own<T5Options>().head_width = 5;
  config.hidden = 20;
  constexpr std::int64_t heads = s * b * a * 5, hidden = s * b * 20;
  EXPECT_THAT(Kept(config).of_block(),
              ::testing::UnorderedElementsAre(2 * sbh, 2 * sbh, 4 * s * b,  // norm1
                                              2 * heads, 4 * heads, log_sums,
                                              2 * heads,                    // q; k, v; attention
                                              2 * sbh, 2 * sbh, 4 * s * b,  // norm2
                                              2 * hidden, 2 * hidden));     // before and after relu
}

/// Of what attention keeps nothing is left, not even its input: that is a norm of what the block
/// keeps anyway. The 34 of the paper's selective recomputation are 22.
TEST(ActivationMemory, OfABlockOfGptWhoseAttentionIsMadeAgainIsThatOfItsMlpAndTwoResiduals) {
  const auto kept = Kept(config_of("gpt"), attention).of_block();
  EXPECT_THAT(kept, ::testing::UnorderedElementsAre(2 * sbh, 4 * s * b,
                                                    4 * s * b,  // input; norm1: mean, rstd
                                                    2 * sbh,    // residual behind attention
                                                    2 * sbh, 4 * s * b, 4 * s * b,  // norm2
                                                    8 * sbh, 8 * sbh));  // before and after GELU
  EXPECT_EQ(sum_of(kept), (34 - 2 - 10) * sbh + 16 * s * b);
}

/// BERT's attention reads the block's input itself, so that stays. Both norms stand behind a
/// branch, and keep its sum with the residual.
TEST(ActivationMemory, OfABlockOfBertWhoseAttentionIsMadeAgainHasItsInputToo) {
  EXPECT_EQ(sum_of(Kept(config_of("bert"), attention).of_block()), (34 - 2 - 8) * sbh + 16 * s * b);
}

TEST(ActivationMemory, OfABlockOfLlamaWhoseAttentionIsMadeAgainFollowsItsHiddenElementsAlone) {
  ModelConfig config = config_of("llama");
  config.own<LlamaOptions>().kv_heads = 2;
  config.hidden = 20;
  constexpr std::int64_t hidden = s * b * 20;
  EXPECT_THAT(Kept(config, attention).of_block(),
              ::testing::UnorderedElementsAre(2 * sbh, 4 * s * b,           // input; norm1
                                              2 * sbh, 2 * sbh, 4 * s * b,  // residual; norm2
                                              4 * hidden, 2 * hidden));
}

/// The second attention of the decoder reads the norm of a sum, which has not the same bits again
/// (LayerNorm::again), so the norm's output stays; the encoder's is there once.
TEST(ActivationMemory, OfBlocksOfT5WhoseAttentionsAreMadeAgainFollowTheirHiddenElementsAlone) {
  ModelConfig config = config_of("t5");
  config.own<T5Options>().head_width = 5;
  config.hidden = 20;
  constexpr std::int64_t hidden = s * b * 20;
  const Kept kept(config, attention);
  EXPECT_THAT(kept.of_block(),
              ::testing::UnorderedElementsAre(2 * sbh, 4 * s * b,           // input; norm1
                                              2 * sbh, 2 * sbh, 4 * s * b,  // residual; norm2
                                              2 * hidden, 2 * hidden));
  EXPECT_THAT(kept.of_block(layers + 3),
              ::testing::UnorderedElementsAre(2 * sbh, 4 * s * b,           // input; norm1
                                              2 * sbh, 2 * sbh, 4 * s * b,  // residual; norm2
                                              2 * sbh, 2 * sbh, 4 * s * b,  // residual; norm3
                                              2 * hidden, 2 * hidden));
}

TEST(ActivationMemory, OfABlockThatIsMadeAgainIsItsInput) {
  for (const char* kind : {"gpt", "bert", "llama", "t5"})
    EXPECT_THAT(Kept(config_of(kind), full).of_block(), ::testing::ElementsAre(2 * sbh)) << kind;
}

TEST(ActivationMemory, OfAGptIsThatOfItsBlocksAndItsHead) {
  const std::int64_t block = 32 * sbh + 16 * s * b + log_sums;
  const std::int64_t head = 2 * sbh + 2 * sbh + 8 * s * b + 2 * s * b * vocabulary;
  EXPECT_EQ(Kept(config_of("gpt")).all(), layers * block + head);
}

}  // namespace
}  // namespace ringside
