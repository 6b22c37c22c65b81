// SchemeCheck: one thing that every scheme must do, for `ringside check-scheme` and the test suite.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "experiments/tools/check/tiny_runs.h"

namespace ringside::tools::check {

/// One thing that every scheme must do at every world.
struct SchemeCheck {
  std::string_view name;    // one word, in the names of tests
  std::string_view demand;  // what the scheme does then: "ends with the bits of its definition"
  /// Where the scheme does something else; none if all is right. `text` is a file to train on.
  Violations (*run)(const CheckedScheme& one, const std::string& text);
  /// Null: always.
  bool (*applies)(const CheckedScheme& one) = nullptr;
  bool simulates = false;  // whether it needs device "sim"
};

std::span<const SchemeCheck> scheme_checks();
/// Whether the check has something to say about the scheme.
bool concerns(const SchemeCheck& check, const CheckedScheme& one);

/// Where an identity does not hold (core/scheme/scheme_info.h): both runs are made of `scheme`'s
/// and the other scheme's rows.
Violations broken(const Identity& identity, const SchemeInfo& scheme, int world,
                  const std::string& text);

}  // namespace ringside::tools::check
