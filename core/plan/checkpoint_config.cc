#include "core/plan/checkpoint_config.h"

namespace ringside {

Fields fields_of(CheckpointConfig& config) {
  return {
      {"path", &config.path,
       "folder for the run's checkpoints; a run whose folder has some goes on from the newest. "
       "Empty: none are written. A simulated run needs none"},
      {"every", &config.every,
       "steps from one checkpoint to the next; the last step always writes one. 0: no other does. "
       "A simulated run counts the time of checkpoints if this is above 0",
       Range::not_negative},
      {"keep", &config.keep, "checkpoints that are kept: the newest ones", Range::positive},
      {"asynchronous", &config.asynchronous,
       "training goes on while a copy of the state is written; false: it waits until the "
       "checkpoint is on the disk"},
      {"memory_every", &config.memory_every,
       "of a run whose workers come and go: steps from one copy of the state in the host's memory "
       "to the next; the world changes after a step that was copied",
       Range::positive}};
}

Fields fields_of(FaultsConfig& config) {
  return {
      {"restarts", &config.restarts,
       "how often a run whose rank fails starts again, from its newest checkpoint if it has "
       "one; where workers come and go, how many that were killed are replaced",
       Range::not_negative},
      {"plan", &config.plan,
       "faults on purpose: 'kill worker 1 at step 10', 'stop server 0 at step 20 for 5 s', "
       "'slow worker 3 by 2 from step 40', 'hang worker 1 at step 10', 'poison worker 1 at step "
       "10', 'flip worker 2 at step 30', 'cut server 0 at step 30'; with "
       "least_world also 'remove worker 1 at step 10' and 'add worker at step 20'"},
      {"rate", &config.rate,
       "how often a rank drawn at random is killed on purpose: '1/min', '0.1/s' or '3/h'; in a "
       "simulated run also 'cluster': as often as parts of the cluster fail. Empty: never"},
      {"least_world", &config.least_world,
       "the smallest world with which a run goes on whose workers come and go, in a job on several "
       "hosts without those that are gone; 0: they do not, and a run whose worker fails ends or "
       "starts again",
       Range::not_negative},
      {"remove_slow", &config.remove_slow,
       "with least_world: a worker that computes 1.5 times as long as the others, over ten steps, "
       "leaves the run; else it is only named"},
      {"seed", &config.seed, "draws the times and the ranks of faults.rate", Range::not_negative},
      {"hours", &config.hours,
       "hours of a simulated run over which faults.rate strikes; its steps stand for those of all "
       "this time",
       Range::positive},
      {"compare_every", &config.compare_every,
       "steps from one comparison of the workers' parameters with each other to the next; a worker "
       "whose parameters differ ends the run. There is one before each checkpoint too. 0: none",
       Range::not_negative}};
}

}  // namespace ringside
