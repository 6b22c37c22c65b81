// Options that both commands of `bench` have.
#pragma once

#include <string>
#include <vector>

#include "experiments/tools/cli/cli_options.h"

namespace ringside::tools::cli {

struct BenchArguments {
  std::vector<std::int64_t> sizes;  // bytes
  std::int64_t rounds = 0;          // 0: by size
  double timeout_s = 60;
  std::string json;
};

/// Declares --sizes, whose text is `sizes`.
void add_sizes(CommandOptions& options, BenchArguments& bench, const std::string& sizes);
/// Declares --rounds, --timeout and --json. `way` is what is measured in turn.
void add_measurement(CommandOptions& options, BenchArguments& bench, const std::string& way);

}  // namespace ringside::tools::cli
