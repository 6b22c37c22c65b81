#include "core/optim/optimizers.h"

#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/optim/adamw.h"
#include "core/optim/lamb.h"
#include "core/optim/sgd.h"

namespace ringside {
namespace {

struct OptimizerRow {
  std::string_view name;
  decltype(&make_adamw) make;
};
constexpr OptimizerRow rows[] = {{"adamw", make_adamw}, {"sgd", make_sgd}, {"lamb", make_lamb}};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const RunSize& run,
                                          Device& device, const Tensor& parameters,
                                          ParameterMap map) {
  check(config);
  for (const OptimizerRow& row : rows)
    if (row.name == config.kind) return row.make(config, run, device, parameters, std::move(map));
  throw Error("optimizer.kind = '{}' passed check(), but no code makes this optimizer",
              config.kind);
}

}  // namespace ringside
