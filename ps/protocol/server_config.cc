#include "ps/protocol/server_config.h"

namespace ringside::ps {

UpdateRules update_rules(const OptimizerConfig& optimizer, const ConsistencyRules& rules,
                         std::int64_t steps, int workers) {
  if (!is_asynchronous(rules.consistency)) return {optimizer, steps};
  UpdateRules out{optimizer, steps * workers};
  out.optimizer.warmup_steps *= workers;
  out.optimizer.step_every *= workers;
  return out;
}

}  // namespace ringside::ps
