// Differences between two comparisons besides their figures: environment, configuration and data.
#pragma once

#include <string>
#include <vector>

#include "core/base/fields.h"
#include "experiments/runner/results/saved_results.h"

namespace ringside::runner {

/// Something that has two values; a value is "nothing" where it is missing.
struct Difference {
  std::string what;  // "cpu", "train.steps", "data file books/a.txt"
  std::string a, b;
  std::vector<std::string> cases;  // whose runs differ in it; empty: all of those in both
};

Fields fields_of(Difference& difference);

/// The differences of two texts of environment.json, except the time and the environments of
/// earlier records. For lists, such as that of the libraries, the elements that only one list has.
std::vector<Difference> environment_differences(const std::string& a, const std::string& b);

/// The keys in which the plans of equal cases differ, under their names in experiment files, and
/// the files of data whose sizes differ. Keys that follow from others, such as the order of sums,
/// and the keys of references are left out.
std::vector<Difference> configuration_differences(const SavedResults& a, const SavedResults& b);

/// The name of a row in the texts of a diff: "ddp at world 2".
std::string case_name(const std::string& label, int world);

}  // namespace ringside::runner
