#include "core/plan/train_config.h"

namespace ringside {

Fields fields_of(TrainConfig& config) {
  return {
      {"steps", &config.steps, "optimizer steps, warm-up included", Range::positive},
      {"warmup", &config.warmup, "first steps, left out of every figure about time and bytes",
       Range::not_negative},
      {"global_batch", &config.global_batch, "samples a step, over all ranks", Range::positive},
      {"batch_per_rank", &config.batch_per_rank,
       "samples a step of each rank, in place of train.global_batch, which then grows with the "
       "world; 0: off",
       Range::not_negative},
      {"micro_batch", &config.micro_batch, "most samples that a rank computes at once; 0: no limit",
       Range::not_negative},
      {"accumulation", &config.accumulation,
       "the fewest micro-batches into which a rank splits its samples of a step", Range::positive},
      {"shares", ListOrName{&config.weights, &config.shares, name_of(Shares::given)},
       "how the samples of a step are divided over workers: 'equal'; 'speed': in proportion to the "
       "speed of their devices, which is measured before the run; or a list with a weight for each "
       "worker, as in [3, 1]. All have the same number of micro-batches, of different sizes",
       Range::positive},
      {"reduce", &config.reduce,
       "reduce gradients over ranks after the 'last' micro-batch of a step (with fsdp, every rank "
       "holds whole gradients until then) or after 'every' micro-batch; auto: every for fsdp, "
       "zero2 and zero3, else last"},
      {"recompute", &config.recompute,
       "what is dropped in forward and computed again in backward, for less memory: none; "
       "attention: what layers of attention keep; full: all activations but the inputs of units"},
      {"offload", &config.offload,
       "none; optimizer: optimizer state and master weights live in the host's memory, and the "
       "host's processor updates parameters while copies overlap compute; parameters: the shards "
       "of parameters live there too (fsdp, zero3)"},
      {"precision", &config.precision,
       "fp32, bf16 or fp16 for parameters, gradients and activations; bf16 and fp16 have fp32 "
       "master weights, and fp16 has dynamic loss scaling"},
      {"reduce_precision", &config.reduce_precision,
       "fp32, bf16 or fp16 for gradients while they are summed over ranks, whatever the precision "
       "of the parameters; optimizers then get fp32 sums; same: train.precision"},
      {"seed", &config.seed, "seed of the initial values and of the order of the data",
       Range::not_negative},
      {"initial_weights", &config.initial_weights,
       "file of weights to begin with, relative to the experiment file: safetensors with the names "
       "of Hugging Face or torchvision, an index of several such files, or a model file of llm.c; "
       "'': weights are drawn with train.seed"},
      {"evaluate_every", &config.evaluate_every,
       "steps between evaluations on held-out data; 0: never", Range::not_negative},
      {"evaluate_batches", &config.evaluate_batches, "global batches an evaluation looks at",
       Range::positive},
      {"timeout_s", &config.timeout_s, "longest wait for another rank, in seconds",
       Range::positive},
      {"skip_not_finite", &config.skip_not_finite,
       "steps in a row that all workers skip because the loss or a gradient of one of them is not "
       "finite; one more ends the run. 0: the first one does",
       Range::not_negative}};
}

}  // namespace ringside
