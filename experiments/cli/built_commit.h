// Which commit this program was built from. The source is written at every build
// (cmake/built_commit.cmake), for the program alone: tests do without.
#pragma once

#include <string_view>

namespace ringside {

/// 40 hexadecimal digits; with "-dirty" behind them where sources had changed since that commit,
/// and "unknown" outside of git.
std::string_view built_commit();

}  // namespace ringside
