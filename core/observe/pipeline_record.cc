#include "core/observe/pipeline_record.h"

namespace ringside {

Fields fields_of(StageRecord& stage) {
  return {{"stage", &stage.stage},
          {"forward_ms", &stage.forward_ms},
          {"backward_ms", &stage.backward_ms},
          {"input_gradient_ms", &stage.input_gradient_ms},
          {"weight_gradient_ms", &stage.weight_gradient_ms},
          {"most_under_way", &stage.most_under_way}};
}

Fields fields_of(PipelineRecord& record) {
  return {{"stages", Structs(&record.stages)},
          {"waiting_ms", &record.waiting_ms},
          {"bytes_sent_per_step", &record.bytes_sent_per_step},
          {"most_activations", &record.most_activations},
          {"put_right", &record.put_right}};
}

}  // namespace ringside
