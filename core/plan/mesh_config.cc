#include "core/plan/mesh_config.h"

namespace ringside {

Fields fields_of(MeshConfig& config) {
  return {{"data", &config.data,
           "workers with different samples, over which the scheme runs; 0: as many as the world "
           "allows",
           Range::not_negative},
          {"pipeline", &config.pipeline,
           "workers that have different stages of the model; 1: every worker has the whole model, "
           "as in "
           "schemes of one worker, which have no mesh",
           Range::positive},
          {"innermost", &config.innermost,
           "the dimension along which neighbouring workers follow each other, so that it lies "
           "within a machine: data or pipeline"}};
}

Fields fields_of(PipelineConfig& config) {
  return {
      {"schedule", &config.schedule,
       "the order in which stages compute micro-batches: sequential, gpipe, 1f1b, interleaved, "
       "zb_h1, zb_h2, zb_v, their names in PyTorch, or the path of a CSV file (`ringside schedule "
       "show`)"},
      {"chunks", &config.chunks,
       "stages of each worker, for schedules that allow several (interleaved); 0: as many as the "
       "schedule has, which is 1, but 2 for zb_v",
       Range::not_negative},
      {"most_in_flight", &config.most_in_flight,
       "a run is refused whose schedule lets a stage hold activations of more micro-batches at a "
       "time; 0: no limit",
       Range::not_negative},
      {"balance", &config.balance,
       "what the stages have alike: parameters, or the time of forward and backward, which is that "
       "of the simulated device or, of real ones, what `ringside calibrate` measured, else follows "
       "from floating-point operations"},
      {"cuts", &config.cuts,
       "the number of the first unit of each stage but the first, as in [3, 5]; []: by "
       "pipeline.balance",
       Range::positive},
      {"post_validation", &config.post_validation,
       "the optimizer of a stage goes ahead of the sums over stages (optimizer.clip_norm, fp16), "
       "and is put right where they say otherwise; it keeps a copy of parameters and state until "
       "then"},
      {"profile.f", &config.profile.f,
       "simulated: milliseconds of a stage's forward (F) of a micro-batch, in place of the "
       "device's; with a profile, nothing but stages and messages takes time. 0 in all four: "
       "no profile",
       Range::not_negative},
      {"profile.b", &config.profile.b,
       "the same for the gradient of its input (I); a whole backward (B) takes b + w",
       Range::not_negative},
      {"profile.w", &config.profile.w, "the same for the gradients of its weights (W)",
       Range::not_negative},
      {"profile.send", &config.profile.send, "the same for a message from one stage to another",
       Range::not_negative}};
}

}  // namespace ringside
