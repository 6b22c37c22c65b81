#include "experiments/tools/cli/bench_arguments.h"

#include <fmt/format.h>

namespace ringside::tools::cli {

void add_sizes(CommandOptions& options, BenchArguments& bench, const std::string& sizes) {
  options.add("--sizes", bench.sizes, sizes).list().sizes().type("A,B");
}

void add_measurement(CommandOptions& options, BenchArguments& bench, const std::string& way) {
  options
      .add("--rounds", bench.rounds,
           fmt::format("turns of every {}; default: 20, and 11 above 16 MB", way))
      .between(1, 1'000'000)
      .type("N");
  options.add("--timeout", bench.timeout_s, "seconds to wait for a rank; default: 60")
      .positive()
      .type("S");
  options.add("--json", bench.json, "also write the figures to this file").type("FILE");
}

}  // namespace ringside::tools::cli
