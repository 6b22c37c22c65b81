#include "core/observe/model_work.h"

namespace ringside {

Fields fields_of(ModelWork& work) {
  return {{"linear", &work.linear},
          {"attention", &work.attention},
          {"convolution", &work.convolution},
          {"executed", &work.executed},
          {"tokens", &work.tokens}};
}

Fields fields_of(Peak& peak) {
  return {{"flops", &peak.flops}, {"dtype", &peak.dtype}, {"source", &peak.source}};
}

}  // namespace ringside
