// Identity and TriedOptions: what a scheme is checked with, besides its definition.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/options.h"

namespace ringside {

/// Options with which the test suite trains a scheme besides its defaults.
struct TriedOptions {
  std::string_view name;  // in the names of tests: letters, digits, '-' and '_'
  Options options;
};

/// A run of the scheme that must equal a run of another scheme. What a scheme shares with its
/// definition, such as a base class, the two can have wrong alike; other schemes do not share it.
struct Identity {
  /// The settings of both runs, as `--set` takes them: "scheme.local_sgd.sync_every=1".
  std::vector<std::string> settings;
  std::string_view other;  // the other scheme, at the same world, or "single" over all samples
  /// Whether the losses and the final parameters are equal to the bit; otherwise the losses are, up
  /// to rounding.
  bool to_the_bit = false;
  /// Settings of the other run alone: "optimizer.momentum=0.9".
  std::vector<std::string> other_settings{};
  int at_world = 0;        // the only world at which they are equal; 0: they are at every one
  bool of_plugin = false;  // it is a plug-in's claim, which no test of this program has tried
};

}  // namespace ringside
