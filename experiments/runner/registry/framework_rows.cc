#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

const std::vector<FrameworkRow>& framework_rows() {
  static const std::vector<FrameworkRow> rows = {
      {"none", "no framework: operations are all that a step takes", {}},
      // Fitted to one V100 with and without DistributedDataParallel in the figures of the benchmark
      // that PyTorch had in 2020: 3 and 9 ms more for the 161 and 314 tensors of ResNet-50 and
      // -101, 2 and 10 for ResNeXt's, which have as many: 24 ms for 950.
      {"pytorch", "PyTorch 1.4: the hooks and buffers of DistributedDataParallel", {{"ddp", 25}}},
  };
  return rows;
}

}  // namespace ringside::runner
