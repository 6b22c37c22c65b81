// Python code of a user's own that a scheme runs: a function or class, named as "file.py:NAME".
#pragma once

#include <string>
#include <string_view>

#include "core/plan/other_program.h"

namespace ringside::runner {

/// The options by which a scheme takes such code, with the names of their keys in errors.
struct UserCode {
  std::string_view key;  // "scheme.torch-ddp.hook"
  const std::string& code;
  /// What `code` is held against: "file.py:NAME"; "none"; or empty: the definition that the file of
  /// `code` brings.
  const std::string& definition;
  /// What brings it there: "def definition" or "class Definition".
  std::string_view brings;
};

inline constexpr std::string_view no_definition = "none";

/// Whether the text names code in a file, and so begins with a path.
bool names_file(std::string_view text);

/// Says in `program` which files of the user's it reads, and who defines what they compute. Throws
/// Error that begins with the key for a name of another form, a file that cannot be read, and a
/// function or class whose name is nowhere in its file. The code is not run: a name that the file
/// has for something else fails in the ranks.
void add_user_code(OtherProgram& program, const UserCode& user);

/// Throws Error unless the text is empty or of the form "NAME=VALUE, NAME=VALUE".
void check_settings(std::string_view key, std::string_view text);

}  // namespace ringside::runner
