// Configurations of very small models of all kinds.
#pragma once

#include "core/models/idefics3.h"
#include "core/models/llama.h"
#include "core/models/t5.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::testing {

inline runner::ExperimentConfig evaluated_resnet() {
  auto config = tiny_resnet();
  config.train.evaluate_every = 5;
  config.train.evaluate_batches = 2;
  config.optimizer.kind = "sgd";
  return config;
}

inline runner::ExperimentConfig tiny_bert() {
  auto config = tiny("bert");
  config.model.context = 12;
  config.model.vocabulary = 30;
  config.model.masked = 3;
  config.model.dropout = 0.2;
  config.data.kind = "synthetic-masked";
  config.data.path.clear();
  return config;
}

inline runner::ExperimentConfig gpt_with_dropout() {
  auto config = tiny("gpt");
  config.model.dropout = 0.2;
  return config;
}

inline runner::ExperimentConfig tied_llama() {
  auto config = tiny("llama");
  config.model.heads = 4;
  config.model.own<LlamaOptions>().kv_heads = 2;
  config.model.tied = true;
  return config;
}

inline runner::ExperimentConfig tiny_idefics3() {
  auto config = tiny("idefics3");
  config.model.vocabulary = 24;
  config.model.tied = true;
  config.model.image = 9;  // 4 x 4 patches, which make 4 visual tokens
  config.model.classes = 5;
  config.model.own<Idefics3Options>() = {
      .patch = 2, .vision_layers = 1, .vision_heads = 2, .vision_width = 12, .vision_hidden = 20};
  config.data.kind = "synthetic-captions";
  config.data.path.clear();
  return config;
}

inline runner::ExperimentConfig tiny_t5() {
  auto config = tiny("t5");
  config.model.target_context = 5;
  config.model.own<T5Options>().head_width = 5;
  config.model.vocabulary = 30;
  config.model.dropout = 0.2;
  config.data.kind = "synthetic-pairs";
  config.data.path.clear();
  return config;
}

}  // namespace ringside::testing
