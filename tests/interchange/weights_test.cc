#include "core/interchange/weights.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>

#include "core/device/cpu/cpu_device.h"
#include "core/device/write_values.h"
#include "core/models/idefics3.h"
#include "core/models/llama.h"
#include "core/models/models.h"
#include "core/models/t5.h"
#include "core/num/random.h"
#include "tests/interchange/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

using testing::complaint;
using testing::contains;
using testing::TemporaryFolder;

ModelConfig gpt_of(bool tied) {
  ModelConfig c{.kind = "gpt", .layers = 2, .heads = 2, .width = 8, .context = 6};
  c.vocabulary = 11;
  c.tied = tied;
  return c;
}

ModelConfig images(const std::string& kind, std::int64_t layers, std::int64_t image) {
  ModelConfig c;
  c.kind = kind;
  c.layers = layers;
  c.image = image;
  c.filters = 2;
  c.classes = 3;
  return c;
}

ModelConfig llama(bool tied) {
  ModelConfig c = gpt_of(tied);
  c.kind = "llama";
  c.heads = 4;
  c.own<LlamaOptions>().kv_heads = 2;
  c.hidden = 10;
  return c;
}

ModelConfig idefics3(bool tied) {
  ModelConfig c = llama(tied);
  c.kind = "idefics3";
  c.image = 8;
  c.channels = 2;
  c.own<Idefics3Options>() = {
      .patch = 2, .vision_layers = 2, .vision_heads = 2, .vision_width = 6, .vision_hidden = 7};
  return c;
}

ModelConfig bert_config() {
  ModelConfig c = gpt_of(false);
  c.kind = "bert";
  c.masked = 2;
  return c;
}

ModelConfig t5_config() {
  ModelConfig c = gpt_of(false);
  c.kind = "t5";
  c.own<T5Options>().head_width = 3;
  return c;
}

ModelConfig mlp() {
  ModelConfig c = gpt_of(false);
  c.kind = "mlp";
  return c;
}

/// A model with random parameters and statistics. save() writes them to a file, and loaded() reads
/// the parameters and statistics of a file, so that tests can compare the two.
class Weights {
 public:
  Weights(const ModelConfig& config, DType dtype, std::uint64_t seed = 1)
      : config_(config), dtype_(dtype), model_(make_model(config, *device_)) {
    std::uint64_t at = 0;
    const auto draw = [&](const Tensor& out) {
      std::vector<float> values(static_cast<std::size_t>(out.count()));
      for (float& value : values)
        value = static_cast<float>(random_normal(seed, Stream::parameters, at++));
      write_values(*device_, out, values);
    };
    for (const auto& unit : model_.units) {
      draw(parameters_.emplace_back(range(unit->layout().count())));
      for (const auto& statistic : unit->statistics()) draw(statistic.values);
    }
  }

  void save(const std::string& path) {
    WeightsFile file(path, model_, config_, dtype_);
    for (std::size_t u = parameters_.size(); u-- > 0;) file.add(*model_.units[u], parameters_[u]);
    file.finish(7);
  }
  std::shared_ptr<const InitialValues> open(const std::string& path) const {
    return open_weights(path, model_, config_);
  }
  std::string refused(const std::string& path) const {
    return complaint([&] { open(path); });
  }
  /// Returns the error of reading a file if `change` is called while the file is open.
  std::string refused_after(const std::string& path, const std::function<void()>& change) {
    const auto values = open(path);
    change();
    const Unit& unit = *model_.units[0];
    const Tensor out = range(unit.layout().count());
    return complaint([&] { values->write(unit, 0, 0, out); });
  }

  /// Returns the parameters and statistics of a file. Reads parameters in pieces of `piece`
  /// elements, which may begin and end within a parameter.
  std::vector<std::vector<std::byte>> loaded(const std::string& path, std::int64_t piece) {
    const auto values = open(path);
    std::vector<std::vector<std::byte>> out;
    for (std::size_t u = 0; u < parameters_.size(); ++u) {
      const Unit& unit = *model_.units[u];
      const Tensor all = range(unit.layout().count());
      for (std::int64_t begin = 0; begin < all.count(); begin += piece)
        values->write(unit, 0, begin, all.range(begin, std::min(piece, all.count() - begin)));
      out.push_back(bytes(all));
      values->write_statistics(unit);
      for (const auto& statistic : unit.statistics()) out.push_back(bytes(statistic.values));
    }
    return out;
  }
  std::vector<std::vector<std::byte>> own() const {
    std::vector<std::vector<std::byte>> out;
    for (std::size_t u = 0; u < parameters_.size(); ++u) {
      out.push_back(bytes(parameters_[u]));
      for (const auto& statistic : model_.units[u]->statistics())
        out.push_back(bytes(statistic.values));
    }
    return out;
  }

  /// Element `at` of a parameter of this model, which must have dtype fp32.
  float value(const std::string& unit, const std::string& parameter, std::int64_t at) const {
    for (std::size_t u = 0; u < parameters_.size(); ++u)
      for (const Parameter& p : model_.units[u]->layout().parameters())
        if (model_.units[u]->name() == unit && p.name == parameter)
          return parameters_[u].span<float>()[static_cast<std::size_t>(p.begin + at)];
    ADD_FAILURE() << "no " << unit << " " << parameter;
    return 0;
  }
  std::int64_t count() const { return model_.parameter_count(); }

 private:
  Tensor range(std::int64_t count) {
    return device_->tensor({count}, MemoryKind::parameter, dtype_);
  }
  std::vector<std::byte> bytes(const Tensor& values) const {
    std::vector<std::byte> out(values.bytes());
    device_->read(values, out);
    return out;
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  ModelConfig config_;
  DType dtype_;
  Model model_;
  std::vector<Tensor> parameters_;
};

struct Case {
  std::string name;
  ModelConfig config;
};

class RoundTrip : public ::testing::TestWithParam<std::tuple<Case, DType>> {};

TEST_P(RoundTrip, KeepsTheBits) {
  const auto& [model, dtype] = GetParam();
  const TemporaryFolder folder;
  const std::string path = folder.path() / "model.safetensors";
  Weights written(model.config, dtype), other(model.config, dtype, 2);
  const auto values = written.own();
  written.save(path);
  EXPECT_NE(other.own(), values);
  EXPECT_EQ(other.loaded(path, 1'000'000), values);
  EXPECT_EQ(other.loaded(path, 13), values);
}

INSTANTIATE_TEST_SUITE_P(
    Models, RoundTrip,
    ::testing::Combine(
        ::testing::Values(Case{"gpt", gpt_of(false)}, Case{"gpt_tied", gpt_of(true)},
                          Case{"llama", llama(false)}, Case{"llama_tied", llama(true)},
                          Case{"bert", bert_config()}, Case{"idefics3", idefics3(false)},
                          Case{"idefics3_tied", idefics3(true)}, Case{"t5", t5_config()},
                          Case{"mlp", mlp()}, Case{"resnet18", images("resnet", 18, 8)},
                          Case{"resnet50", images("resnet", 50, 8)},
                          Case{"vgg11", images("vgg", 11, 64)},
                          Case{"alexnet", images("alexnet", 8, 95)},
                          Case{"inception", images("inception", 24, 75)}),
        ::testing::Values(DType::f32, DType::bf16, DType::f16)),
    [](const auto& info) {
      return std::get<0>(info.param).name + "_" + std::string(name_of(std::get<1>(info.param)));
    });

class Names : public ::testing::Test {
 protected:
  /// Saves a model with random parameters, and opens the tensors of the file.
  Weights& write(const ModelConfig& config) {
    weights_.emplace(config, DType::f32);
    weights_->save(path_);
    file_ = open_safetensors(path_);
    return *weights_;
  }
  float value(const std::string& name, std::int64_t at) const {
    float out = NAN;
    std::memcpy(&out, file_.tensors.at(name).bytes.data() + 4 * at, sizeof out);
    return out;
  }
  std::string extents(const std::string& name) const {
    return text_of(file_.tensors.at(name).extents);
  }
  TemporaryFolder folder_;
  std::string path_ = folder_.path() / "model.safetensors";
  std::optional<Weights> weights_;
  StoredTensors file_;
};

TEST_F(Names, OfGptAreHuggingFaces) {
  const Weights& gpt = write(gpt_of(false));
  EXPECT_EQ(file_.tensors.size(), 2u + 2 * 12 + 2 + 1);
  EXPECT_EQ(extents("transformer.wte.weight"), "11x8");
  EXPECT_EQ(extents("transformer.wpe.weight"), "6x8");
  EXPECT_EQ(extents("transformer.h.1.attn.c_attn.weight"), "8x24") << "[in, out]";
  EXPECT_EQ(extents("transformer.h.1.mlp.c_proj.weight"), "32x8");
  EXPECT_EQ(extents("lm_head.weight"), "11x8");
  EXPECT_EQ(value("transformer.h.1.attn.c_attn.weight", 3 * 24 + 20),
            gpt.value("block.1", "attention.qkv.weight", 20 * 8 + 3));
  EXPECT_EQ(value("transformer.h.0.ln_2.bias", 5), gpt.value("block.0", "norm2.bias", 5));
  EXPECT_EQ(value("transformer.ln_f.weight", 5), gpt.value("head", "norm.weight", 5));
}

TEST_F(Names, OfATiedHeadAreLeftOut) {
  write(gpt_of(true));
  EXPECT_EQ(file_.tensors.size(), 2u + 2 * 12 + 2);
  EXPECT_FALSE(file_.tensors.contains("lm_head.weight"));
}

TEST_F(Names, OfLlamaAreHuggingFaces) {
  const Weights& model = write(llama(false));
  EXPECT_EQ(file_.tensors.size(), 1u + 2 * 9 + 2);
  EXPECT_EQ(extents("model.embed_tokens.weight"), "11x8");
  const std::string layer = "model.layers.1.";
  EXPECT_EQ(extents(layer + "self_attn.q_proj.weight"), "8x8");
  EXPECT_EQ(extents(layer + "self_attn.k_proj.weight"), "4x8") << "2 of 4 heads";
  EXPECT_EQ(extents(layer + "self_attn.v_proj.weight"), "4x8");
  EXPECT_EQ(extents(layer + "mlp.gate_proj.weight"), "10x8");
  EXPECT_EQ(extents(layer + "mlp.down_proj.weight"), "8x10");
  EXPECT_EQ(extents("lm_head.weight"), "11x8");
  for (const auto& [name, first] :
       std::map<std::string, std::int64_t>{{"q_proj", 0}, {"k_proj", 8}, {"v_proj", 12}})
    EXPECT_EQ(value(layer + "self_attn." + name + ".weight", 3 * 8 + 5),
              model.value("block.1", "attention.qkv.weight", (first + 3) * 8 + 5))
        << name;
  EXPECT_EQ(value(layer + "mlp.up_proj.weight", 2 * 8 + 1),
            model.value("block.1", "mlp.in.weight", (10 + 2) * 8 + 1));
  EXPECT_EQ(value(layer + "post_attention_layernorm.weight", 3),
            model.value("block.1", "norm2.weight", 3));
}

TEST_F(Names, OfBertAreHuggingFaces) {
  const Weights& bert_model = write(bert_config());
  EXPECT_EQ(file_.tensors.size(), 5u + 2 * 16 + 2 + 2 + 4 + 1);
  const std::string self = "bert.encoder.layer.1.attention.self.";
  EXPECT_EQ(extents(self + "key.weight"), "8x8");
  EXPECT_EQ(value(self + "key.weight", 2 * 8 + 3),
            bert_model.value("block.1", "attention.qkv.weight", (8 + 2) * 8 + 3));
  EXPECT_EQ(value(self + "value.bias", 3),
            bert_model.value("block.1", "attention.qkv.bias", 16 + 3));
  EXPECT_EQ(extents("cls.predictions.bias"), "11");
  EXPECT_EQ(extents("cls.seq_relationship.weight"), "2x8");
}

TEST_F(Names, OfIdefics3AreHuggingFaces) {
  const Weights& model = write(idefics3(false));
  EXPECT_EQ(file_.tensors.size(), 3u + 2 * 16 + 2 + 1 + 1 + 2 * 9 + 2);
  const std::string vision = "model.vision_model.", text = "model.text_model.";
  const std::string patches = vision + "embeddings.patch_embedding.weight";
  EXPECT_EQ(extents(patches), "6x2x2x2");
  // Kernel 3, row 1, column 0, channel 1: the file has [o, i, h, w], the model [o, h, w, i].
  EXPECT_EQ(value(patches, ((3 * 2 + 1) * 2 + 1) * 2 + 0),
            model.value("patches", "convolution.weight", ((3 * 2 + 1) * 2 + 0) * 2 + 1));
  EXPECT_EQ(extents(vision + "embeddings.position_embedding.weight"), "16x6");
  const std::string layer = vision + "encoder.layers.1.";
  EXPECT_EQ(extents(layer + "mlp.fc1.weight"), "7x6");
  EXPECT_EQ(value(layer + "self_attn.v_proj.bias", 4),
            model.value("vision.1", "attention.qkv.bias", 2 * 6 + 4));
  EXPECT_EQ(value(vision + "post_layernorm.bias", 5), model.value("connector", "norm.bias", 5));
  const std::string connector = "model.connector.modality_projection.proj.weight";
  EXPECT_EQ(extents(connector), "8x24") << "4 patches of 6 elements";
  EXPECT_EQ(value(connector, 5 * 24 + 17), model.value("connector", "visual.weight", 5 * 24 + 17));
  EXPECT_EQ(extents(text + "embed_tokens.weight"), "11x8");
  EXPECT_EQ(extents(text + "layers.1.self_attn.k_proj.weight"), "4x8");
  EXPECT_EQ(value(text + "layers.1.mlp.up_proj.weight", 9),
            model.value("block.1", "mlp.in.weight", 10 * 8 + 9));
  EXPECT_EQ(value(text + "norm.weight", 2), model.value("head", "norm.weight", 2));
  EXPECT_EQ(extents("lm_head.weight"), "11x8");
}

TEST_F(Names, OfT5AreHuggingFaces) {
  const Weights& model = write(t5_config());
  EXPECT_EQ(file_.tensors.size(), 1u + (2 * 8 + 1) + 1 + (2 * 13 + 1) + 1);
  EXPECT_EQ(extents("shared.weight"), "11x8");
  const std::string first = "encoder.block.0.layer.0.SelfAttention.";
  EXPECT_EQ(extents(first + "relative_attention_bias.weight"), "32x2");
  EXPECT_EQ(extents("decoder.block.1.layer.1.EncDecAttention.o.weight"), "8x6");
  EXPECT_EQ(value(first + "q.weight", 3 * 8 + 5),
            model.value("encoder.0", "attention.q.weight", 3 * 8 + 5));
  EXPECT_EQ(value(first + "v.weight", 3 * 8 + 5),
            model.value("encoder.0", "attention.kv.weight", (6 + 3) * 8 + 5));
  EXPECT_EQ(value("decoder.block.1.layer.1.EncDecAttention.k.weight", 3 * 8 + 5),
            model.value("decoder.1", "cross.kv.weight", 3 * 8 + 5));
  EXPECT_EQ(value("decoder.block.1.layer.2.layer_norm.weight", 3),
            model.value("decoder.1", "norm3.weight", 3));
  EXPECT_EQ(value("encoder.final_layer_norm.weight", 3), model.value("bridge", "norm.weight", 3));
}

TEST_F(Names, OfResNetAreTorchvisions) {
  const Weights& resnet = write(images("resnet", 18, 8));
  EXPECT_EQ(file_.tensors.size(), 122u) << "as torchvision's resnet18 has";
  EXPECT_EQ(extents("conv1.weight"), "2x3x3x3");
  EXPECT_EQ(extents("layer2.0.downsample.0.weight"), "4x2x1x1");
  EXPECT_EQ(extents("layer2.0.conv1.weight"), "4x2x3x3");
  // The element with o = 3, i = 1, h = 2, w = 0: the file has the order [o, i, h, w], the model has
  // [o, h, w, i].
  EXPECT_EQ(value("layer2.0.conv1.weight", ((3 * 2 + 1) * 3 + 2) * 3 + 0),
            resnet.value("layer2.0", "conv1.weight", ((3 * 3 + 2) * 3 + 0) * 2 + 1));
  EXPECT_EQ(extents("bn1.running_var"), "2");
  EXPECT_EQ(extents("bn1.num_batches_tracked"), "scalar");
  EXPECT_EQ(file_.tensors.at("bn1.num_batches_tracked").dtype, "I64");
  EXPECT_EQ(static_cast<int>(file_.tensors.at("bn1.num_batches_tracked").bytes[0]), 7);
  EXPECT_EQ(extents("fc.weight"), "3x16");
}

TEST_F(Names, OfVggAreTorchvisionsWithChannelsBeforePositions) {
  const Weights& vgg = write(images("vgg", 11, 64));
  EXPECT_EQ(file_.tensors.size(), 2u * (8 + 3));
  EXPECT_EQ(extents("features.18.weight"), "16x16x3x3");
  const std::int64_t positions = 4, channels = 16;
  EXPECT_EQ(extents("classifier.0.weight"), "16x64");
  EXPECT_EQ(value("classifier.0.weight", 5 * 64 + 7 * positions + 2),
            vgg.value("classifier.0", "classifier.0.weight", 5 * 64 + 2 * channels + 7));
}

TEST_F(Names, OfAlexNetAreTorchvisionsWithChannelsBeforePositions) {
  const Weights& alexnet = write(images("alexnet", 8, 95));
  EXPECT_EQ(file_.tensors.size(), 2u * (5 + 3));
  EXPECT_EQ(extents("features.3.weight"), "6x2x5x5");
  const std::int64_t positions = 4, channels = 8;
  EXPECT_EQ(extents("classifier.1.weight"), "128x32");
  EXPECT_EQ(value("classifier.1.weight", 5 * 32 + 7 * positions + 2),
            alexnet.value("classifier.1", "classifier.1.weight", 5 * 32 + 2 * channels + 7));
}

TEST_F(Names, OfInceptionAreTorchvisions) {
  ModelConfig published = images("inception", 48, 75);
  published.filters = 1;
  const Weights& inception = write(published);
  EXPECT_EQ(file_.tensors.size(), 94u * 6 + 2)
      << "as torchvision's inception_v3 has without its auxiliary classifier";
  EXPECT_EQ(extents("Conv2d_1a_3x3.conv.weight"), "1x3x3x3");
  EXPECT_EQ(extents("Conv2d_4a_3x3.bn.running_var"), "6");
  EXPECT_EQ(extents("Mixed_6e.branch7x7dbl_5.conv.weight"), "6x6x1x7");
  EXPECT_EQ(extents("Mixed_7c.branch3x3dbl_3b.conv.weight"), "12x12x3x1");
  // The element with o = 3, i = 2, h = 0, w = 4 of 6 kernels of 1x7 over 4 channels.
  EXPECT_EQ(extents("Mixed_6b.branch7x7dbl_5.conv.weight"), "6x4x1x7");
  EXPECT_EQ(value("Mixed_6b.branch7x7dbl_5.conv.weight", (3 * 4 + 2) * 7 + 4),
            inception.value("Mixed_6b", "branch7x7dbl_5.conv.weight", (3 * 7 + 4) * 4 + 2));
  EXPECT_EQ(extents("fc.weight"), "3x64");
}

class Fit : public Names {
 protected:
  /// Writes a copy of the file with changed tensors, and returns its path.
  std::string changed(const std::function<void(std::map<std::string, StoredTensor>&)>& change) {
    auto tensors = file_.tensors;
    change(tensors);
    std::vector<SafetensorsWriter::Tensor> list;
    for (const auto& [name, tensor] : tensors)
      list.push_back({name, tensor.dtype, tensor.extents,
                      tensor.dtype == "I64"    ? 8u
                      : tensor.dtype == "F32"  ? 4u
                      : tensor.dtype == "BOOL" ? 1u
                                               : 2u});
    const std::string path = folder_.path() / "changed.safetensors";
    SafetensorsWriter writer(path, list);
    std::size_t i = 0;
    for (const auto& [name, tensor] : tensors) writer.write(i++, tensor.bytes);
    writer.finish();
    return path;
  }
  static void rename(std::map<std::string, StoredTensor>& tensors, const std::string& from,
                     const std::string& to) {
    auto node = tensors.extract(from);
    node.key() = to;
    tensors.insert(std::move(node));
  }
};

TEST_F(Fit, WhatIsNoFileIsRefusedAtOnce) {
  const Weights& gpt = write(gpt_of(false));
  const TemporaryFolder folder;
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(contains(gpt.refused(pipe), "pipe cannot be read: it is a pipe or a device"));
}

TEST_F(Fit, AFileThatIsCutWhileItIsReadIsNamed) {
  Weights& gpt = write(gpt_of(false));
  const std::string path = changed([](auto&) {});
  EXPECT_TRUE(contains(gpt.refused_after(path, [&] { std::filesystem::resize_file(path, 0); }),
                       "changed.safetensors changed while it was in use"));
}

TEST_F(Fit, ListsWhatIsMissingDifferentAndUnknown) {
  const Weights& gpt = write(gpt_of(false));
  const std::string error = gpt.refused(changed([](auto& tensors) {
    rename(tensors, "transformer.ln_f.bias", "transformer.ln_g.bias");
    tensors["transformer.wpe.weight"].extents = {8, 6};
    tensors["transformer.h.0.ln_1.bias"].dtype = "I64";
    tensors["transformer.h.0.ln_1.bias"].extents = {4};
  }));
  EXPECT_TRUE(contains(error, "missing: transformer.ln_f.bias (unit head)"));
  EXPECT_TRUE(contains(error, "transformer.wpe.weight (unit embedding) is 8x6, not 6x8"));
  EXPECT_TRUE(contains(error, "transformer.h.0.ln_1.bias (unit block.0) is I64"));
  EXPECT_TRUE(contains(error, "unknown: transformer.ln_g.bias"));
}

TEST_F(Fit, TakesGptsWithoutThePrefixAndWithOldMasks) {
  Weights& gpt = const_cast<Weights&>(write(gpt_of(false)));
  const auto values = gpt.own();
  const std::vector<float> mask(36);
  const std::vector<std::byte> flags(36);
  const std::string path = changed([&](auto& tensors) {
    for (const auto& [name, tensor] : file_.tensors)
      if (name.starts_with("transformer.")) rename(tensors, name, name.substr(12));
    tensors["h.0.attn.bias"] = {"F32", {1, 1, 6, 6}, std::as_bytes(std::span(mask)), ""};
    tensors["h.1.attn.bias"] = {"BOOL", {1, 1, 6, 6}, flags, ""};
  });
  EXPECT_EQ(gpt.loaded(path, 1000), values);
}

TEST_F(Fit, LeavesOutTheNamesOfWrappers) {
  Weights& gpt = const_cast<Weights&>(write(gpt_of(false)));
  const auto values = gpt.own();
  const auto renamed = [&](const std::function<std::string(const std::string&)>& name_of) {
    return changed([&](auto& tensors) {
      for (const auto& [name, tensor] : file_.tensors) rename(tensors, name, name_of(name));
    });
  };
  for (const std::string wrapper :
       {"module.", "_orig_mod.", "_fsdp_wrapped_module.", "module._orig_mod.", "_orig_mod.module.",
        "_fsdp_wrapped_module._orig_mod.", "module.module._checkpoint_wrapped_module."})
    EXPECT_EQ(gpt.loaded(renamed([&](const auto& name) { return wrapper + name; }), 1000), values)
        << wrapper;
  const std::string within = renamed([](std::string name) {
    if (const auto at = name.find(".h.1."); at != std::string::npos)
      name.insert(at + 5, "_fsdp_wrapped_module._orig_mod.");
    return "_fsdp_wrapped_module." + name;
  });
  EXPECT_EQ(gpt.loaded(within, 1000), values);
  const std::string both = changed([](auto& tensors) {
    tensors["module.transformer.wpe.weight"] = tensors["transformer.wpe.weight"];
  });
  EXPECT_TRUE(contains(gpt.refused(both),
                       "tensors 'module.transformer.wpe.weight' and 'transformer.wpe.weight' are "
                       "both 'transformer.wpe.weight' without the names of wrappers"));
}

TEST_F(Fit, WantsATiedHeadToBeTheTable) {
  const Weights& gpt = write(gpt_of(true));
  const auto with_head = [&](const std::string& which) {
    return changed([&](auto& tensors) { tensors["lm_head.weight"] = tensors[which]; });
  };
  EXPECT_EQ(gpt.refused(with_head("transformer.wte.weight")), "nothing");
  std::vector<float> other(88);
  const std::string path = changed([&](auto& tensors) {
    tensors["lm_head.weight"] = {"F32", {11, 8}, std::as_bytes(std::span(other)), ""};
  });
  EXPECT_TRUE(contains(gpt.refused(path), "lm_head.weight differs from transformer.wte.weight"));
}

TEST_F(Fit, CutsAPaddedVocabulary) {
  Weights& gpt = const_cast<Weights&>(write(gpt_of(true)));
  const auto values = gpt.own();
  const auto padded = [&](std::int64_t rows) {
    const auto wte = file_.tensors.at("transformer.wte.weight").bytes;
    std::vector<std::byte> more(static_cast<std::size_t>(rows) * 32);
    std::copy(wte.begin(), wte.end(), more.begin());
    return changed([&](auto& tensors) {
      tensors["transformer.wte.weight"].extents[0] = rows;
      tensors["transformer.wte.weight"].bytes = more;
    });
  };
  EXPECT_EQ(gpt.loaded(padded(128), 1000), values);
  EXPECT_TRUE(contains(gpt.refused(padded(129)), "is 129x8, not 11x8"));
  EXPECT_EQ(gpt.refused(padded(12)), "nothing") << "fewer than 128 are padded too";
}

TEST_F(Fit, TakesBertsWithOldNamesOfNorms) {
  Weights& model = const_cast<Weights&>(write(bert_config()));
  const auto values = model.own();
  const std::string path = changed([&](auto& tensors) {
    for (const auto& [name, tensor] : file_.tensors) {
      if (name.ends_with("LayerNorm.weight"))
        rename(tensors, name, name.substr(0, name.size() - 6) + "gamma");
      if (name.ends_with("LayerNorm.bias"))
        rename(tensors, name, name.substr(0, name.size() - 4) + "beta");
    }
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"];
  });
  EXPECT_EQ(model.loaded(path, 1000), values);
}

TEST_F(Fit, ValuesThatAreNotFiniteAreRefusedByName) {
  Weights& model = const_cast<Weights&>(write(images("resnet", 18, 8)));
  Weights half(images("resnet", 18, 8), DType::f16);
  const auto complaint_of = [&](Weights& reader, const std::string& name, float last) {
    std::vector<float> values(name == "fc.bias" ? 3 : 2, 1);
    values.back() = last;
    const std::string path =
        changed([&](auto& tensors) { tensors[name].bytes = std::as_bytes(std::span(values)); });
    return complaint([&] { reader.loaded(path, 1000); });
  };
  EXPECT_TRUE(contains(complaint_of(model, "fc.bias", NAN),
                       "changed.safetensors: tensor 'fc.bias' has the value nan; "
                       "all values of train.initial_weights must be finite in fp32"));
  EXPECT_TRUE(contains(complaint_of(model, "bn1.running_var", INFINITY),
                       "tensor 'bn1.running_var' has the value inf"));
  EXPECT_EQ(complaint_of(model, "fc.bias", 7e4F), "nothing");
  EXPECT_TRUE(
      contains(complaint_of(half, "fc.bias", 7e4F),
               "has the value 70000; all values of train.initial_weights must be finite in fp16"));
}

class Stated : public Names {
 protected:
  /// Saves weights of `config`, and returns the error of reading them with `change`d [model].
  std::string refused(ModelConfig config, const std::function<void(ModelConfig&)>& change) {
    write(config);
    change(config);
    return Weights(config, DType::f32).refused(path_);
  }
};

TEST_F(Stated, SavedWeightsAreOfTheModelThatSavedThem) {
  const std::string advice = "; choose the [model] that the weights were made for";
  // None of these changes a shape.
  EXPECT_EQ(refused(llama(false),
                    [](ModelConfig& c) {
                      c.heads = 2;
                      c.own<LlamaOptions>().kv_heads = 1;
                    }),
            "train.initial_weights: heads = 4 in " + path_ + ", 2 here; kv_heads = 2 in " + path_ +
                ", 1 here" + advice);
  EXPECT_EQ(refused(llama(true), [](ModelConfig& c) { c.own<LlamaOptions>().rope_base = 500000; }),
            "train.initial_weights: rope_base = 10000.0 in " + path_ + ", 500000.0 here" + advice);
  EXPECT_EQ(refused(t5_config(), [](ModelConfig& c) { c.own<T5Options>().relative_distance = 64; }),
            "train.initial_weights: relative_distance = 128 in " + path_ + ", 64 here" + advice);
  EXPECT_EQ(refused(gpt_of(true), [](ModelConfig& c) { c.epsilon = 1e-6; }),
            "train.initial_weights: epsilon = 1e-05 in " + path_ + ", 1e-06 here" + advice);
  EXPECT_EQ(
      refused(bert_config(), [](ModelConfig& c) { c.activation = ModelActivation::relu; }),
      "train.initial_weights: activation = \"gelu\" in " + path_ + ", \"relu\" here" + advice);
  EXPECT_EQ(
      refused(idefics3(false), [](ModelConfig& c) { c.own<Idefics3Options>().vision_heads = 3; }),
      "train.initial_weights: vision_heads = 2 in " + path_ + ", 3 here" + advice);
  EXPECT_EQ(refused(gpt_of(true), [](ModelConfig& c) { c.layers = 3; }),
            "train.initial_weights: layers = 2 in " + path_ + ", 3 here" + advice);
}

TEST_F(Stated, SamplesMayHaveAnotherLengthAndTrainingOtherSettings) {
  EXPECT_EQ(refused(llama(false), [](ModelConfig& c) { c.context = 3; }), "nothing");
  EXPECT_EQ(refused(bert_config(),
                    [](ModelConfig& c) {
                      c.positions = c.context;
                      c.context = 4;
                      c.dropout = 0.5;
                      c.masked = 1;
                    }),
            "nothing");
  EXPECT_EQ(refused(images("resnet", 18, 8), [](ModelConfig& c) { c.batch_norm_group = 2; }),
            "nothing");
}

TEST_F(Stated, AVocabularyMayBePadded) {
  ModelConfig padded = gpt_of(true);
  padded.vocabulary = 128;
  EXPECT_EQ(refused(padded, [](ModelConfig& c) { c.vocabulary = 11; }), "nothing");
  EXPECT_TRUE(contains(refused(gpt_of(true), [](ModelConfig& c) { c.vocabulary = 12; }),
                       "vocabulary = 11 in " + path_ + ", 12 here"));
}

/// A model, the config.json of Hugging Face that is its, one key with another value there, and the
/// error that says so.
struct Beside {
  std::string name;
  ModelConfig config;
  nlohmann::json file;
  std::string key;
  nlohmann::json other;
  std::string error;
};

std::vector<Beside> besides() {
  const nlohmann::json of_llama = {
      {"model_type", "llama"},    {"num_hidden_layers", 2}, {"num_attention_heads", 4},
      {"num_key_value_heads", 2}, {"hidden_size", 8},       {"intermediate_size", 10},
      {"rms_norm_eps", 1e-5},     {"vocab_size", 11},       {"rope_theta", 1e4}};
  return {{"gpt2",
           gpt_of(true),
           {{"model_type", "gpt2"},
            {"n_layer", 2},
            {"n_head", 2},
            {"n_embd", 8},
            {"n_positions", 6},
            {"vocab_size", 11}},
           "/n_head",
           4,
           "n_head = 4 in FILE, heads = 2 here"},
          {"llama", llama(false), of_llama, "/num_attention_heads", 2,
           "num_attention_heads = 2 in FILE, heads = 4 here"},
          {"bert",
           bert_config(),
           {{"model_type", "bert"},
            {"num_hidden_layers", 2},
            {"num_attention_heads", 2},
            {"hidden_size", 8},
            {"intermediate_size", 32},
            {"max_position_embeddings", 6},
            {"vocab_size", 11}},
           "/layer_norm_eps",
           1e-5,
           "layer_norm_eps = 1e-05 in FILE, epsilon = 1e-12 here"},
          {"t5",
           t5_config(),
           {{"model_type", "t5"},
            {"num_layers", 2},
            {"num_heads", 2},
            {"d_model", 8},
            {"d_kv", 3},
            {"d_ff", 32},
            {"vocab_size", 11}},
           "/relative_attention_max_distance",
           64,
           "relative_attention_max_distance = 64 in FILE, relative_distance = 128 here"},
          {"idefics3",
           idefics3(false),
           {{"model_type", "idefics3"},
            {"text_config", of_llama},
            {"vision_config",
             {{"image_size", 8},
              {"num_channels", 2},
              {"patch_size", 2},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 2},
              {"hidden_size", 6},
              {"intermediate_size", 7}}}},
           "/vision_config/num_attention_heads",
           3,
           "vision_config.num_attention_heads = 3 in FILE, vision_heads = 2 here"}};
}

TEST_F(Stated, AConfigJsonBesideTheWeightsIsHeldAgainstTheModel) {
  for (Beside& one : besides()) {
    SCOPED_TRACE(one.name);
    // Without the metadata of ours.
    const Weights& model = write(one.config);
    StoredTensors bare = file_;
    const std::string path = folder_.path() / "bare.safetensors";
    std::vector<SafetensorsWriter::Tensor> list;
    for (const auto& [name, tensor] : bare.tensors) list.push_back({name, "F32", tensor.extents});
    SafetensorsWriter writer(path, list);
    std::size_t i = 0;
    for (const auto& [name, tensor] : bare.tensors) writer.write(i++, tensor.bytes);
    writer.finish();

    const std::string config = folder_.write("config.json", one.file.dump());
    EXPECT_EQ(model.refused(path), "nothing");
    one.file[nlohmann::json::json_pointer(one.key)] = one.other;
    folder_.write("config.json", one.file.dump());
    one.error.replace(one.error.find("FILE"), 4, config);
    EXPECT_EQ(model.refused(path), "train.initial_weights: " + one.error +
                                       "; choose the [model] that the weights were made for");
    std::filesystem::remove(config);
  }
}

TEST_F(Stated, AConfigJsonMaySayThatTheVocabularyIsPadded) {
  const Weights& model = write(gpt_of(true));
  nlohmann::json file = besides()[0].file;
  file["vocab_size"] = 64;
  folder_.write("config.json", file.dump());
  EXPECT_EQ(model.refused(path_), "nothing");
  file["vocab_size"] = 129;
  folder_.write("config.json", file.dump());
  EXPECT_TRUE(contains(model.refused(path_), "vocab_size = 129 in"));
}

TEST_F(Stated, OtherKindsOfModelsDoNotReadAConfigJson) {
  const Weights& model = write(images("resnet", 18, 8));
  folder_.write("config.json", "{");
  EXPECT_EQ(model.refused(path_), "nothing");
}

TEST_F(Fit, DoesNotNeedCounters) {
  const Weights& model = write(images("resnet", 18, 8));
  EXPECT_EQ(model.refused(changed([](auto& t) { t.erase("bn1.num_batches_tracked"); })), "nothing");
  EXPECT_TRUE(contains(model.refused(changed([](auto& t) { t.erase("bn1.running_mean"); })),
                       "missing: bn1.running_mean"));
}

}  // namespace
}  // namespace ringside
