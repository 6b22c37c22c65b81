// The [train] table of an experiment file.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor/dtype.h"

namespace ringside {

struct TrainConfig {
  std::int64_t steps = 30;
  std::int64_t warmup = 5;
  std::int64_t global_batch = 16;
  std::int64_t micro_batch = 0;
  std::int64_t accumulation = 1;
  std::string reduce = "auto";
  bool recompute = false;
  std::string precision = "fp32";
  std::int64_t seed = 1;
  std::string initial_weights;
  std::int64_t evaluate_every = 0;
  std::int64_t evaluate_batches = 8;
  double timeout_s = 60;
};

template <class Visitor>
void visit_fields(TrainConfig& c, Visitor&& v) {
  v("steps", c.steps, "optimizer steps, warm-up included");
  v("warmup", c.warmup, "first steps, left out of every figure about time and bytes");
  v("global_batch", c.global_batch, "samples a step, over all ranks");
  v("micro_batch", c.micro_batch, "most samples that a rank computes at once; 0: no limit");
  v("accumulation", c.accumulation, "least number of micro-batches a rank and step");
  v("reduce", c.reduce,
    "gradients go over ranks after the 'last' micro-batch (fsdp: every rank then holds whole ones) "
    "or at 'every' one; auto: last, but for fsdp every");
  v("recompute", c.recompute,
    "keep the units' inputs alone and compute activations again in backward: less memory, more "
    "compute");
  v("precision", c.precision,
    "fp32; bf16, fp16: of parameters, gradients and activations, with fp32 master weights (fp16 "
    "with "
    "dynamic loss scaling)");
  v("seed", c.seed, "of the initial values and of the order of the data");
  v("initial_weights", c.initial_weights,
    "file of weights to begin with, relative to the experiment file: safetensors by the names of "
    "Hugging Face or torchvision, an index of several, or a model file of llm.c; '': drawn by "
    "seed");
  v("evaluate_every", c.evaluate_every, "steps between evaluations on held-out data; 0: never");
  v("evaluate_batches", c.evaluate_batches, "global batches an evaluation looks at");
  v("timeout_s", c.timeout_s, "longest wait for another rank, in seconds");
}

/// Of parameters, gradients, activations and communication; masters and moments are fp32.
inline DType parameter_dtype(const TrainConfig& train) {
  for (const DType dtype : {DType::bf16, DType::f16})
    if (train.precision == name_of(dtype)) return dtype;
  return DType::f32;
}

}  // namespace ringside
