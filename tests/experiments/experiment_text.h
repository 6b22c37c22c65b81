// Experiment files that a test writes as text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiments/runner/config/config.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::testing {

class ExperimentText : public ::testing::Test {
 protected:
  using Texts = std::vector<std::string>;

  runner::Experiment read(const std::string& text, const Texts& overrides = {},
                          const Texts& cases = {}) {
    return runner::read_experiment(folder_.write("trial.toml", text), overrides, cases);
  }
  /// The message of the error that reading `text` throws.
  std::string complaint(const std::string& text, const Texts& overrides = {},
                        const Texts& cases = {}) {
    return testing::complaint([&] { read(text, overrides, cases); });
  }

  TemporaryFolder folder_;
};

}  // namespace ringside::testing
