// The error of a call, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/base/error.h"

namespace ringside::testing {

/// The text of the Error that `act` throws, which must be one line; "nothing" if `act` does not
/// throw.
inline std::string complaint(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "nothing";
}

}  // namespace ringside::testing
