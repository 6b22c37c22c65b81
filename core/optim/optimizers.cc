#include "core/optim/optimizers.h"

#include <utility>

#include "core/base/row_list.h"
#include "core/optim/flat_optimizer.h"

namespace ringside {
namespace {

RowList<OptimizerInfo>& optimizer_list() {
  static RowList<OptimizerInfo> list(
      "optimizer", {{"adamw", "Adam with decoupled weight decay", make_adamw,
                     [](const OptimizerConfig&) { return 2; }},
                    {"sgd", "gradient descent, with or without momentum", make_sgd,
                     [](const OptimizerConfig& config) { return config.momentum == 0 ? 0 : 1; }},
                    {"lamb", "AdamW's direction, with a learning rate for each parameter",
                     make_lamb, [](const OptimizerConfig&) { return 2; }, 1}});
  return list;
}

}  // namespace

const std::vector<OptimizerInfo>& optimizers() { return optimizer_list().rows(); }
void add_optimizer(OptimizerInfo row) { optimizer_list().add(std::move(row)); }
const OptimizerInfo& find_optimizer(std::string_view kind) { return optimizer_list().find(kind); }

void check(const OptimizerConfig& config) {
  find_optimizer(config.kind);
  check_settings(config);
}

int values_of_each(const OptimizerConfig& config) {
  return find_optimizer(config.kind).values(config);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const RunSize& run,
                                          Device& device, const Tensor& parameters,
                                          ParameterMap map) {
  check(config);
  return find_optimizer(config.kind).make(config, run, device, parameters, std::move(map));
}

}  // namespace ringside
