// Weights whose files state their [model].
#include "core/interchange/stated_model.h"

#include <gtest/gtest.h>

#include <set>

#include "core/models/llama.h"
#include "core/models/model_defaults.h"
#include "core/models/presets.h"
#include "tests/interchange/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

using nlohmann::json;
using testing::complaint;
using testing::contains;
using testing::TemporaryFolder;

/// A config.json in the words of Hugging Face, and the published model that it is.
struct Published {
  std::string preset;
  json config;
};

Published gpt2() {
  return {"gpt2",
          {{"model_type", "gpt2"},
           {"architectures", {"GPT2LMHeadModel"}},
           {"activation_function", "gelu_new"},
           {"attn_pdrop", 0.1},
           {"initializer_range", 0.02},
           {"layer_norm_epsilon", 1e-5},
           {"n_ctx", 1024},
           {"n_embd", 768},
           {"n_head", 12},
           {"n_inner", nullptr},
           {"n_layer", 12},
           {"n_positions", 1024},
           {"task_specific_params", {{"text-generation", {{"max_length", 50}}}}},
           {"vocab_size", 50257}}};
}

Published llama() {
  return {"llama3.1-8b",
          {{"model_type", "llama"},
           {"attention_bias", false},
           {"hidden_act", "silu"},
           {"hidden_size", 4096},
           {"intermediate_size", 14336},
           {"max_position_embeddings", 131072},
           {"mlp_bias", false},
           {"num_attention_heads", 32},
           {"num_hidden_layers", 32},
           {"num_key_value_heads", 8},
           {"rms_norm_eps", 1e-5},
           {"rope_scaling",
            {{"factor", 8.0},
             {"low_freq_factor", 1.0},
             {"high_freq_factor", 4.0},
             {"original_max_position_embeddings", 8192},
             {"rope_type", "llama3"}}},
           {"rope_theta", 500000.0},
           {"tie_word_embeddings", false},
           {"torch_dtype", "bfloat16"},
           {"vocab_size", 128256}}};
}

Published bert() {
  return {"bert-base",
          {{"model_type", "bert"},
           {"attention_probs_dropout_prob", 0.1},
           {"hidden_act", "gelu"},
           {"hidden_size", 768},
           {"intermediate_size", 3072},
           {"layer_norm_eps", 1e-12},
           {"max_position_embeddings", 512},
           {"num_attention_heads", 12},
           {"num_hidden_layers", 12},
           {"position_embedding_type", "absolute"},
           {"type_vocab_size", 2},
           {"vocab_size", 30522}}};
}

Published t5() {
  return {"t5-small",
          {{"model_type", "t5"},
           {"d_ff", 2048},
           {"d_kv", 64},
           {"d_model", 512},
           {"dropout_rate", 0.1},
           {"feed_forward_proj", "relu"},
           {"dense_act_fn", "relu"},
           {"is_encoder_decoder", true},
           {"is_gated_act", false},
           {"layer_norm_epsilon", 1e-6},
           {"num_decoder_layers", 6},
           {"num_heads", 8},
           {"num_layers", 6},
           {"relative_attention_max_distance", 128},
           {"relative_attention_num_buckets", 32},
           {"vocab_size", 32128}}};
}

/// The published file leaves out what is as in the class.
Published idefics3() {
  return {"smolvlm-2b",
          {{"model_type", "idefics3"},
           {"image_token_id", 49153},
           {"scale_factor", 3},
           {"tie_word_embeddings", false},
           {"text_config",
            {{"model_type", "llama"},
             {"head_dim", 64},
             {"hidden_size", 2048},
             {"intermediate_size", 8192},
             {"max_position_embeddings", 16384},
             {"num_hidden_layers", 24},
             {"qk_layer_norms", false},
             {"rms_norm_eps", 1e-5},
             {"rope_theta", 273768.0},
             {"vocab_size", 49155}}},
           {"vision_config",
            {{"model_type", "idefics3"},
             {"hidden_size", 1152},
             {"image_size", 384},
             {"intermediate_size", 4304},
             {"max_image_size", {{"longest_edge", 384}}},
             {"num_attention_heads", 16},
             {"num_hidden_layers", 27},
             {"patch_size", 14}}}}};
}

class HuggingFace : public ::testing::Test {
 protected:
  StatedModel read(const json& config) {
    return read_hugging_face_config(folder_.write("config.json", config.dump()), "model.from");
  }
  /// The file with another value under a key such as "/text_config/rope_theta", and the error of
  /// reading it, or else how it differs from the preset.
  std::string answer(Published published, const std::string& key, const json& value) {
    published.config[json::json_pointer(key)] = value;
    std::string out;
    const std::string error = complaint([&] {
      for (const Disagreement& one : disagreements(read(published.config), model_of(published)))
        out += out.empty() ? one.text : "; " + one.text;
    });
    return error == "nothing" ? out : error;
  }
  static ModelConfig model_of(const Published& published) {
    return find_preset(published.preset).config;
  }
  /// "TEXT in FILE, ..."
  std::string in_file(const std::string& text, const std::string& here) const {
    return text + " in " + file_ + ", " + here + " here";
  }
  /// "FILE: TEXT"
  std::string refused(const std::string& text) const { return file_ + ": " + text; }

  TemporaryFolder folder_;
  std::string file_ = folder_.path() / "config.json";
};

TEST_F(HuggingFace, APublishedConfigurationIsThePresetOfItsName) {
  for (const Published& published : {gpt2(), llama(), bert(), t5(), idefics3()}) {
    SCOPED_TRACE(published.preset);
    const StatedModel stated = read(published.config);
    EXPECT_EQ(stated.file, file_);
    for (const Disagreement& one : disagreements(stated, model_of(published)))
      ADD_FAILURE() << one.text;
    std::set<std::string> keys, deciding = {"kind"};
    for (const StatedModel::Key& key : stated.keys) keys.insert(key.ours);
    for (const std::string_view key : deciding_keys(stated.model.kind)) deciding.emplace(key);
    EXPECT_EQ(keys, deciding) << "every key that decides is stated";
  }
}

TEST_F(HuggingFace, AnotherValueIsNamedWithFileKeyAndBothValues) {
  EXPECT_EQ(answer(gpt2(), "/n_head", 16), in_file("n_head = 16", "heads = 12"));
  EXPECT_EQ(answer(gpt2(), "/layer_norm_epsilon", 1e-6),
            in_file("layer_norm_epsilon = 1e-06", "epsilon = 1e-05"));
  EXPECT_EQ(answer(gpt2(), "/activation_function", "gelu"),
            in_file("activation_function = \"gelu\"", "activation = \"gelu_tanh\""));
  EXPECT_EQ(answer(gpt2(), "/tie_word_embeddings", false),
            in_file("tie_word_embeddings = false", "tied = true"));
  EXPECT_EQ(answer(llama(), "/num_attention_heads", 64),
            in_file("num_attention_heads = 64", "heads = 32"));
  EXPECT_EQ(answer(llama(), "/num_key_value_heads", nullptr),
            in_file("num_key_value_heads = 32", "kv_heads = 8"));
  EXPECT_EQ(answer(llama(), "/rope_theta", 10000),
            in_file("rope_theta = 10000", "rope_base = 500000.0"));
  EXPECT_EQ(answer(llama(), "/rope_scaling", nullptr),
            in_file("rope_scaling.rope_type = \"default\" (the default of its model_type)",
                    "rope_factor = 8.0"));
  EXPECT_EQ(answer(bert(), "/num_attention_heads", 16),
            in_file("num_attention_heads = 16", "heads = 12"));
  EXPECT_EQ(answer(bert(), "/hidden_act", "relu"),
            in_file("hidden_act = \"relu\"", "activation = \"gelu\""));
  EXPECT_EQ(answer(t5(), "/relative_attention_max_distance", 64),
            in_file("relative_attention_max_distance = 64", "relative_distance = 128"));
  EXPECT_EQ(answer(idefics3(), "/text_config/rope_theta", 1e4),
            in_file("text_config.rope_theta = 10000.0", "rope_base = 273768.0"));
  EXPECT_EQ(answer(idefics3(), "/vision_config/num_attention_heads", 8),
            in_file("vision_config.num_attention_heads = 8", "vision_heads = 16"));
  EXPECT_EQ(answer(idefics3(), "/scale_factor", 2), in_file("scale_factor = 2", "shuffle = 3"));
  EXPECT_EQ(answer(bert(), "/model_type", "gpt2"),
            in_file("model_type = \"gpt2\"", "kind = \"bert\""));
}

TEST_F(HuggingFace, WhatTheFileLeavesOutIsAsInTheClass) {
  Published bare = llama();
  bare.config.erase("rms_norm_eps");
  EXPECT_EQ(answer(bare, "/use_cache", true),
            in_file("rms_norm_eps = 1e-06 (the default of its model_type)", "epsilon = 1e-05"));
  const ModelConfig small = read(json::object({{"model_type", "gpt2"}})).model;
  EXPECT_EQ(small.width, 768);
  EXPECT_TRUE(small.tied);
}

TEST_F(HuggingFace, RotaryPositionsMayStandInOneObject) {
  Published newer = llama();
  newer.config["rope_parameters"] = newer.config["rope_scaling"];
  newer.config["rope_parameters"]["rope_theta"] = 500000.0;
  newer.config.erase("rope_scaling");
  newer.config.erase("rope_theta");
  EXPECT_EQ(answer(newer, "/use_cache", true), "");
  EXPECT_EQ(answer(newer, "/rope_parameters/factor", 32.0),
            in_file("rope_parameters.factor = 32.0", "rope_factor = 8.0"));
}

TEST_F(HuggingFace, WhatOurModelsDoNotComputeIsRefusedByName) {
  EXPECT_EQ(answer(llama(), "/attention_bias", true),
            refused("attention_bias = true: model.kind 'llama' computes with false alone"));
  EXPECT_EQ(answer(llama(), "/mlp_bias", true),
            refused("mlp_bias = true: model.kind 'llama' computes with false alone"));
  EXPECT_EQ(answer(llama(), "/sliding_window", 4096),
            refused("sliding_window = 4096: model.kind 'llama' computes with null alone"));
  EXPECT_EQ(answer(llama(), "/head_dim", 256),
            refused("head_dim = 256: model.kind 'llama' computes with 128 alone"));
  EXPECT_EQ(answer(llama(), "/hidden_act", "gelu"),
            refused("hidden_act = \"gelu\": the MLP of model.kind 'llama' does not have it"));
  EXPECT_EQ(answer(llama(), "/rope_scaling", {{"type", "linear"}, {"factor", 2.0}}),
            refused("rope_scaling.type = \"linear\": rotary positions are stretched as in 'llama3' "
                    "alone"));
  EXPECT_EQ(answer(llama(), "/rope_scaling/high_freq_factor", 8.0),
            refused("rope_scaling.high_freq_factor = 8.0: model.kind 'llama' computes with 4.0 "
                    "alone"));
  EXPECT_EQ(answer(gpt2(), "/n_inner", 1024),
            refused("n_inner = 1024: model.kind 'gpt' computes with 3072 alone"));
  EXPECT_EQ(
      answer(gpt2(), "/activation_function", "quick_gelu"),
      refused("activation_function = \"quick_gelu\": the MLP of model.kind 'gpt' does not have "
              "it"));
  EXPECT_EQ(answer(gpt2(), "/scale_attn_by_inverse_layer_idx", true),
            refused("scale_attn_by_inverse_layer_idx = true: model.kind 'gpt' computes with false "
                    "alone"));
  EXPECT_EQ(answer(bert(), "/tie_word_embeddings", false),
            refused("tie_word_embeddings = false: model.kind 'bert' computes with true alone"));
  EXPECT_EQ(answer(bert(), "/position_embedding_type", "relative_key"),
            refused("position_embedding_type = \"relative_key\": model.kind 'bert' computes with "
                    "\"absolute\" alone"));
  EXPECT_EQ(answer(t5(), "/feed_forward_proj", "gated-gelu"),
            refused("feed_forward_proj = \"gated-gelu\": the MLP of model.kind 't5' does not have "
                    "it"));
  EXPECT_EQ(answer(t5(), "/num_decoder_layers", 2),
            refused("num_decoder_layers = 2: model.kind 't5' computes with 6 alone"));
  EXPECT_EQ(answer(idefics3(), "/vision_config/hidden_act", "gelu"),
            refused("vision_config.hidden_act = \"gelu\": vision of model.kind 'idefics3' computes "
                    "with gelu_tanh alone"));
  EXPECT_EQ(answer(idefics3(), "/text_config/tie_word_embeddings", true),
            refused("text_config.tie_word_embeddings = true: the file's own tie_word_embeddings "
                    "says otherwise"));
  EXPECT_EQ(answer(llama(), "/model_type", "mistral"),
            refused("model_type = \"mistral\": [model] has gpt2, llama, bert, t5, idefics3"));
}

TEST_F(HuggingFace, WhatIsNoConfigurationIsRefused) {
  EXPECT_EQ(answer(gpt2(), "/n_head", 0),
            refused("n_head = 0: a whole number from 1 to 1073741824 belongs there"));
  EXPECT_EQ(answer(gpt2(), "/n_head", 1ULL << 63),
            refused("n_head = 9223372036854775808: a whole number from 1 to 1073741824 belongs "
                    "there"));
  EXPECT_EQ(answer(gpt2(), "/n_head", "12"),
            refused("n_head = \"12\": a whole number from 1 to 1073741824 belongs there"));
  EXPECT_EQ(answer(llama(), "/rms_norm_eps", 0),
            refused("rms_norm_eps = 0: a number above 0 belongs there"));
  EXPECT_EQ(answer(idefics3(), "/text_config", 7),
            refused("text_config = 7: an object belongs there"));
  const auto error_of = [&](const std::string& text) {
    folder_.write("config.json", text);
    return complaint([&] { read_hugging_face_config(file_, "model.from"); });
  };
  EXPECT_TRUE(contains(error_of("{\"n_embd\": 3}"), file_ + " is no config.json of Hugging Face"));
  EXPECT_TRUE(contains(error_of("[]"), "it has no model_type"));
  EXPECT_TRUE(contains(error_of("{"), "its JSON cannot be read"));
  EXPECT_TRUE(contains(
      error_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"), "LFS"));
  EXPECT_TRUE(contains(error_of(std::string(1 << 20, '[')), "nested too deep"));
  EXPECT_TRUE(contains(error_of(R"({"model_type": "gpt2", "n_head": 2, "n_head": 4})"),
                       "names 'n_head' twice"));
}

class Metadata : public ::testing::Test {
 protected:
  static StoredTensors saved(const ModelConfig& model) {
    StoredTensors out;
    out.path = "w.safetensors";
    out.metadata.insert(stating_metadata(model));
    return out;
  }
  static std::string differences(const ModelConfig& there, const ModelConfig& here) {
    std::string out;
    for (const Disagreement& one : disagreements(model_of_metadata(saved(there)).value(), here))
      out += out.empty() ? one.text : "; " + one.text;
    return out;
  }
};

TEST_F(Metadata, OfEveryPresetIsThePreset) {
  for (const Preset& preset : presets()) {
    EXPECT_EQ(differences(preset.config, preset.config), "") << preset.name;
    EXPECT_FALSE(deciding_keys(preset.config.kind).empty()) << preset.config.kind;
  }
}

TEST_F(Metadata, NamesEachKeyThatDiffers) {
  ModelConfig there{.kind = "llama", .heads = 2}, here{.kind = "llama", .heads = 4};
  here.own<LlamaOptions>().rope_base = 500000;
  EXPECT_EQ(
      differences(there, here),
      "heads = 2 in w.safetensors, 4 here; kv_heads = 2 in w.safetensors, 4 here; rope_base = "
      "10000.0 in w.safetensors, 500000.0 here");
  here = there;
  here.own<LlamaOptions>().kv_heads = 2;  // as many as heads, said otherwise
  here.epsilon = 1e-5;
  here.activation = ModelActivation::silu;
  here.context = 7;
  here.dropout = 0.5;
  EXPECT_EQ(differences(there, here), "");
  here.epsilon = 1e-6;
  EXPECT_EQ(differences(there, here), "epsilon = 1e-05 in w.safetensors, 1e-06 here");
  EXPECT_EQ(differences({.kind = "gpt"}, here), "kind = \"gpt\" in w.safetensors, \"llama\" here");
}

TEST_F(Metadata, MayBeOlderThanAKeyAndMustBeWhatWasSaved) {
  StoredTensors stored;
  stored.path = "w.safetensors";
  EXPECT_FALSE(model_of_metadata(stored)) << "a file of another program";
  stored.metadata["ringside.model"] = R"({"kind": "gpt", "heads": 2})";
  EXPECT_TRUE(
      disagreements(model_of_metadata(stored).value(), {.kind = "gpt", .heads = 2}).empty());
  for (const char* none : {"", "7", "{}", R"({"kind": 3})", R"({"kind": "gpt", "heads": "2"})",
                           R"({"kind": "gpt", "heads": {}})"}) {
    stored.metadata["ringside.model"] = none;
    EXPECT_TRUE(contains(complaint([&] { model_of_metadata(stored); }), "w.safetensors: ")) << none;
  }
}

}  // namespace
}  // namespace ringside
