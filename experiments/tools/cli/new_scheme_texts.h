// The files that `ringside new scheme` writes, as they are in experiments/tools/cli/new_scheme.
#pragma once

#include <span>
#include <string_view>

namespace ringside::tools::cli {

/// A file with words like @NAME@, which are replaced when it is written.
struct NewSchemeText {
  std::string_view name, text;
};

/// Made by cmake/plugins.cmake.
std::span<const NewSchemeText> new_scheme_texts();

}  // namespace ringside::tools::cli
