#include "experiments/config/config.h"

namespace ringside {

Fields fields_of(CompareConfig& config) {
  return {{"schemes", &config.schemes,
           "the schemes to compare (see `ringside list`); with cases: none unless set"},
          {"worlds", &config.worlds, "numbers of workers; every scheme runs at each of them"},
          {"repeats", &config.repeats,
           "how often each run is made; figures are medians and their intervals"},
          {"seeds", &config.seeds, "seeds with which each run is made; []: train.seed alone"},
          {"attempts", &config.attempts,
           "most attempts at a run that other work on this machine disturbs"},
          {"all_cores", &config.all_cores,
           "cpu: also run `single` with the threads of all ranks of the largest world"},
          {"target_loss",
           NumberOrName{&config.target_loss, &config.target_kind, name_of(TargetKind::number)},
           "held-out loss to which the time of each run is measured: a number, or 'single' for the "
           "mean of the last three held-out losses of `single`; needs train.evaluate_every"}};
}

Fields fields_of(CaseConfig& config) {
  return {{"scheme", &config.scheme, "the scheme of the case"},
          {"label", &config.label, "its name in the table; '': the scheme with what the case sets"},
          {"worlds", &config.worlds, "or world: its numbers of workers; []: compare.worlds"},
          {"published_ms", &config.published_ms,
           "milliseconds of a step that somebody published, one for each world"},
          {"published_per_s", &config.published_per_s,
           "or samples a second that somebody published, one for each world"},
          {"published_times", &config.published_times,
           "or how many times the samples a second of case `over` somebody published, one for each "
           "world"},
          {"over", &config.over, "label of the case that published_times compares with"},
          {"fitted", &config.fitted,
           "worlds whose published figure something was fitted to; all others are predictions"}};
}

}  // namespace ringside
