#include "experiments/runner/config/config.h"

namespace ringside::runner {

Fields fields_of(CompareConfig& config) {
  return {
      {"schemes", &config.schemes,
       "the schemes to compare (see `ringside list`); with cases: none unless set"},
      {"worlds", &config.worlds,
       "numbers of workers; every scheme runs at each of them. '2:8': one run, which begins with "
       "8 workers, and goes on as long as there are 2 (faults.least_world)",
       Range::positive},
      {"repeats", &config.repeats,
       "how often each run is made; figures are medians and their intervals", Range::positive},
      {"seeds", &config.seeds, "seeds with which each run is made; []: train.seed alone",
       Range::not_negative},
      {"attempts", &config.attempts,
       "most attempts at a run that other work on this machine disturbs", Range::positive},
      {"all_cores", &config.all_cores,
       "cpu: also run `single` with the threads of all ranks of the largest world"},
      {"target_loss",
       NumberOrName{&config.target_loss, &config.target_kind, name_of(TargetKind::number)},
       "held-out loss to which the time of each run is measured: a number, or 'single' for the "
       "mean of the last three held-out losses of `single`; needs train.evaluate_every",
       Range::positive}};
}

Fields fields_of(PluginsConfig& config) {
  return {{"files", &config.files,
           "shared libraries with schemes, compressors, optimizers, models or data sets of your "
           "own, as --plugin"}};
}

std::vector<std::pair<std::string_view, Fields>> tables_of(ExperimentConfig& config) {
  return {{"model", fields_of(config.model)},    {"data", fields_of(config.data)},
          {"train", fields_of(config.train)},    {"optimizer", fields_of(config.optimizer)},
          {"mesh", fields_of(config.mesh)},      {"pipeline", fields_of(config.pipeline)},
          {"device", fields_of(config.device)},  {"sim", fields_of(config.sim)},
          {"hosts", fields_of(config.hosts)},    {"checkpoint", fields_of(config.checkpoint)},
          {"faults", fields_of(config.faults)},  {"compare", fields_of(config.compare)},
          {"plugins", fields_of(config.plugins)}};
}

namespace {

/// The keys for published figures, one for each measure, in the order of the measures.
struct PublishedKey {
  std::string_view name, description;
};
constexpr PublishedKey published_keys[] = {
    {"published_ms", "published milliseconds of a step, one for each world"},
    {"published_per_s", "published samples a second, one for each world"},
    {"published_times",
     "published samples a second divided by those of case `over`, one for each world"},
    {"published_speed_up",
     "published samples a second divided by those of world 1, of this case or of `over`, one for "
     "each world"},
    {"published_hours", "published hours for `samples` samples, one for each world"},
    {"published_parameter_gb",
     "published GB (1e9 bytes) of a worker's parameters, one for each world"},
    {"published_state_gb",
     "published GB of a worker's parameters, gradients and optimizer state, one for each world"},
    {"published_gb", "published GB of a worker's memory at its peak, one for each world"}};
static_assert(std::size(published_keys) == measures);

}  // namespace

std::string_view published_key(Measure measure) {
  return published_keys[static_cast<std::size_t>(measure)].name;
}

Fields fields_of(CaseConfig& config) {
  Fields fields = {
      {"scheme", &config.scheme, "the scheme of the case"},
      {"label", &config.label, "its name in the table; '': the scheme with what the case sets"},
      {"worlds", &config.worlds, "or world: its numbers of workers; []: compare.worlds",
       Range::positive}};
  CaseFigures& published = config.published;
  for (std::size_t i = 0; i < measures; ++i)
    fields.push_back({published_keys[i].name, &published.figures[i], published_keys[i].description,
                      Range::positive});
  const Fields more = {
      {"over", &published.over,
       "label of the case that published_times compares with, at the same world or at the only one "
       "of that case, and published_speed_up if it is not this case"},
      {"samples", &published.samples, "number of samples that take published_hours",
       Range::not_negative},
      {"fitted", &published.fitted,
       "worlds whose published figures something was fitted to; all others are predictions",
       Range::positive},
      {"contradiction", &published.contradiction,
       "why the published figures cannot be right: one sentence, with the arithmetic"}};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

}  // namespace ringside::runner
