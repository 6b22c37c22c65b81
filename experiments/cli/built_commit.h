// The commit that this program was built from. The source is written at every build
// (cmake/built_commit.cmake) and linked into the program alone; tests do without it.
#pragma once

#include <string_view>

namespace ringside {

/// 40 hexadecimal digits, followed by "-dirty" if sources had changed since that commit; "unknown"
/// if the sources lay outside of a git repository.
std::string_view built_commit();

}  // namespace ringside
