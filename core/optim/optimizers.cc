#include "core/optim/optimizers.h"

#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/optim/flat_optimizer.h"

namespace ringside {
namespace {

struct OptimizerRow {
  std::string_view name;
  decltype(&make_adamw) make;
  int (*values)(const OptimizerConfig&);
};
constexpr OptimizerRow rows[] = {
    {"adamw", make_adamw, [](const OptimizerConfig&) { return 2; }},
    {"sgd", make_sgd, [](const OptimizerConfig& config) { return config.momentum == 0 ? 0 : 1; }},
    {"lamb", make_lamb, [](const OptimizerConfig&) { return 2; }}};

const OptimizerRow& find_row(const std::string& kind) {
  std::vector<std::string_view> names;
  for (const OptimizerRow& row : rows) {
    if (row.name == kind) return row;
    names.push_back(row.name);
  }
  throw Error("optimizer.kind = \"{}\" is not known; choose {}", kind, one_of(names));
}

}  // namespace

void check(const OptimizerConfig& config) {
  find_row(config.kind);
  check_settings(config);
}

int values_of_each(const OptimizerConfig& config) { return find_row(config.kind).values(config); }

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const RunSize& run,
                                          Device& device, const Tensor& parameters,
                                          ParameterMap map) {
  check(config);
  return find_row(config.kind).make(config, run, device, parameters, std::move(map));
}

}  // namespace ringside
