// ringside bench compressors
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/whole_file.h"
#include "core/compress/compressor_info.h"
#include "experiments/runner/config/config.h"
#include "experiments/tools/bench/codes_bench.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/experiment_arguments.h"
#include "peer/schemes/ddp.h"

namespace ringside::tools::cli {
namespace {

/// Without options of compressors, which may only be made once plug-ins are loaded.
struct BenchCompressorsArguments {
  std::vector<std::string> names, settings;
  std::int64_t rows = 1024, columns = 1024;
  int workers = 2, rounds = 9;
  std::string json;
};

constexpr std::int64_t most_elements = std::int64_t{1} << 30;

bench::CodesBench codes_bench_of(const BenchCompressorsArguments& arguments,
                                 const Process& process) {
  bench::CodesBench bench{.names = arguments.names,
                          .options = {},
                          .rows = arguments.rows,
                          .columns = arguments.columns,
                          .workers = arguments.workers,
                          .rounds = arguments.rounds,
                          .interrupted = process.interrupted};
  if (bench.names.empty())
    for (const CompressorInfo& row : compressors()) bench.names.emplace_back(row.name);
  for (const std::string& name : bench.names) find_compressor(name);
  if (bench.columns > most_elements / bench.rows)
    throw Error("--rows {} --columns {}: at most {} elements", bench.rows, bench.columns,
                most_elements);
  const auto config = runner::experiment_of("bench", arguments.settings).common;
  for (const auto& [scheme, options] : config.scheme_options) {
    if (scheme != "ddp")
      throw Error("--set: options of compressors are those of ddp, as in scheme.ddp.ratio=0.1");
    bench.options = options.as<peer::DdpOptions>().compression;
  }
  return bench;
}

nlohmann::ordered_json json_of(const bench::CodesRow& row) {
  return {{"compressor", row.name},
          {"remembers", row.remembers},
          {"bits", row.bits},
          {"error", row.error},
          {"error_of_20", row.error_of_20},
          {"encode_gbs", row.encode_gbs},
          {"decode_gbs", row.decode_gbs},
          {"copy_gbs", row.copy_gbs}};
}

int bench_compressors(const BenchCompressorsArguments& arguments, const Process& process) {
  bench::CodesBench bench;
  try {
    bench = codes_bench_of(arguments, process);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  process.catch_interrupts();
  const std::vector<bench::CodesRow> rows = bench_codes(bench);
  if (process.interrupted()) return complain(was_interrupted, "bench compressors: interrupted");
  std::cout << codes_text(bench, rows) << std::flush;
  nlohmann::ordered_json json = {{"results", nlohmann::json::array()}};
  for (const bench::CodesRow& row : rows) json["results"].push_back(json_of(row));
  if (!arguments.json.empty()) write_whole(arguments.json, json.dump(2) + "\n");
  return ok;
}

}  // namespace

Execute bench_compressors_command(CommandOptions& options) {
  options.summary(
      "bits, errors and speed of compressors of gradients on one core, beside a plain copy");
  options.uses_cores();
  const auto arguments = std::make_shared<BenchCompressorsArguments>();
  options
      .add("--names", arguments->names,
           "of `ringside list compressors`, and of plug-ins; default: all")
      .list()
      .type("A,B");
  options.add("--rows", arguments->rows, "rows of the matrix that is summed")
      .positive()
      .shows_default();
  options.add("--columns", arguments->columns, "its columns").positive().shows_default();
  options.add("--workers", arguments->workers, "number of workers").between(1, 64).shows_default();
  options.add("--rounds", arguments->rounds, "sums that are timed; figures are medians")
      .between(1, 1000)
      .shows_default();
  add_settings(options, arguments->settings);
  options.add("--json", arguments->json, "also write the figures to this file").type("FILE");
  options.footer(
      "Gradients are normal random numbers, of which half of the variance is common to all "
      "workers and steps. error: Euclidean distance of the sum that workers get from the exact "
      "sum, relative to it, in the first step; error of 20: the same for the sums of 20 steps "
      "together, which a memory of errors makes smaller. GB/s count the fp32 gradient. Options "
      "are those of ddp: --set scheme.ddp.ratio=0.1.");
  return [arguments](const Process& process) { return bench_compressors(*arguments, process); };
}

}  // namespace ringside::tools::cli
