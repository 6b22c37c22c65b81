// The setup of a case: everything that a person needs to repeat it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

struct CaseSetup {
  ModelConfig model{};
  DataConfig data{};
  TrainConfig train{};
  OptimizerConfig optimizer{};
  DeviceConfig device{};
  Options options{};  // of the scheme
  int servers = 0;
  std::int64_t parameters = 0;  // 0 if no repeat has finished, as are the tokens
  double tokens = 0;            // mean tokens of a sample; 0 for images
  std::vector<std::string> hosts{};
  std::vector<std::int64_t> seeds{};
};

/// `repeats` are all repeats of a case, with the smallest seed first; figures that plans lack come
/// from the first one that has finished.
CaseSetup setup_of(const std::vector<const RunRecord*>& repeats);

nlohmann::ordered_json to_json(const CaseSetup& setup);

}  // namespace ringside::runner
