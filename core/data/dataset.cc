#include "core/data/dataset.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside {

Fields fields_of(DataConfig& config) {
  return {
      {"kind", &config.kind, "which data set (see `ringside list`)"},
      {"path", &config.path,
       "a file or folder, or a list of them; relative to the experiment file"},
      {"holdout", &config.holdout,
       "share of the data, at its end, that is held out for evaluation; if the data set has "
       "test files of its own, any share above 0 holds out exactly those",
       Range::not_negative},
      {"mean", &config.mean, "idx: subtracted from pixels, which are 0 to 1"},
      {"std", &config.deviation, "idx: pixels are divided by this after `mean` is subtracted",
       Range::positive},
      {"augment", &config.augment,
       "cifar10, cifar100: training images are shifted and mirrored at random"},
      {"length_median", &config.length_median,
       "synthetic-lengths: half of the sequences are longer; lengths are log-normal",
       Range::positive},
      {"length_sigma", &config.length_sigma,
       "synthetic-lengths: standard deviation of the lengths' logarithm; 0: all are equal",
       Range::not_negative},
      {"length_histogram", &config.length_histogram,
       "synthetic-lengths: [length, weight] pairs, instead of median and sigma",
       Range::not_negative},
      {"packing", &config.packing,
       "synthetic-lengths: padded (to the longest sequence of a micro-batch) or packed (several "
       "sequences fill a context)"}};
}

void require_task(std::string_view data_kind, Task task, std::initializer_list<Task> served) {
  if (std::find(served.begin(), served.end(), task) != served.end()) return;
  std::string names;
  for (const Task one : served)
    names += fmt::format("{}{}", names.empty() ? "" : " or ", name_of(one));
  throw Error(
      "data.kind = '{}' is for models that predict {}, but this model predicts {}; change "
      "model.kind or data.kind (see `ringside list`)",
      data_kind, names, name_of(task));
}

}  // namespace ringside
