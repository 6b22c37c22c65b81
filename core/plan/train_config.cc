#include "core/plan/train_config.h"

namespace ringside {

Fields fields_of(TrainConfig& config) {
  return {
      {"steps", &config.steps, "optimizer steps, warm-up included"},
      {"warmup", &config.warmup, "first steps, left out of every figure about time and bytes"},
      {"global_batch", &config.global_batch, "samples a step, over all ranks"},
      {"micro_batch", &config.micro_batch,
       "most samples that a rank computes at once; 0: no limit"},
      {"accumulation", &config.accumulation, "least number of micro-batches a rank and step"},
      {"reduce", &config.reduce,
       "gradients go over ranks after the 'last' micro-batch (fsdp: every rank then holds whole "
       "ones) or at 'every' one; auto: last, but for fsdp every"},
      {"recompute", &config.recompute,
       "keep the units' inputs alone and compute activations again in backward: less memory, more "
       "compute"},
      {"precision", &config.precision,
       "fp32; bf16, fp16: of parameters, gradients and activations, with fp32 master weights (fp16 "
       "with dynamic loss scaling)"},
      {"seed", &config.seed, "of the initial values and of the order of the data"},
      {"initial_weights", &config.initial_weights,
       "file of weights to begin with, relative to the experiment file: safetensors by the names "
       "of Hugging Face or torchvision, an index of several, or a model file of llm.c; '': drawn "
       "by seed"},
      {"evaluate_every", &config.evaluate_every,
       "steps between evaluations on held-out data; 0: never"},
      {"evaluate_batches", &config.evaluate_batches, "global batches an evaluation looks at"},
      {"timeout_s", &config.timeout_s, "longest wait for another rank, in seconds"}};
}

}  // namespace ringside
