// The commit that this program was built from. Every build writes the source file that defines
// built_commit() (see cmake/built_commit.cmake). Only the program is linked with that file;
// the tests are not.
#pragma once

#include <string_view>

namespace ringside::tools::cli {

/// 40 hexadecimal digits, followed by "-dirty" if sources had changed since that commit; "unknown"
/// if the sources lay outside of a git repository.
std::string_view built_commit();

}  // namespace ringside::tools::cli
