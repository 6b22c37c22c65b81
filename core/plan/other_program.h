// Ranks that another program runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"

namespace ringside {

/// Who computes the definition of a scheme that has an algorithm of its own.
enum class DefinedBy : std::uint8_t {
  ringside,  // this program: SchemeInfo::define, or `single`
  program,   // the program that runs the ranks, in one rank (RunPlan::defines)
  nobody     // there is no definition, so nothing can be shown
};
inline constexpr std::string_view defined_by_names[] = {"ringside", "program", "nobody"};
constexpr EnumNames names_of(DefinedBy) { return defined_by_names; }

/// A file of the user's that such a program reads: code of the user's own.
struct ProgramFile {
  std::string path;    // absolute
  std::string digest;  // of its content (core/base/hash.h), by which versions are told apart
  bool operator==(const ProgramFile&) const = default;
};

inline Fields fields_of(ProgramFile& file) {
  return {{"path", &file.path}, {"digest", &file.digest}};
}

/// A program that runs ranks in place of this one, with the same protocol to the launcher
/// (core/launch/launch.h).
struct OtherProgram {
  /// The command: a file, or the name of a file in a folder of PATH, as "python3".
  std::string command;
  /// Its first argument: a file or folder in the folder of this program, as "peers/ringside_peers".
  std::string script;
  /// Whether one process runs all ranks and reports the list of their records.
  bool all_ranks = false;
  DefinedBy definition = DefinedBy::ringside;
  std::vector<ProgramFile> files{};
  bool operator==(const OtherProgram&) const = default;
};

inline Fields fields_of(OtherProgram& program) {
  return {{"command", &program.command},
          {"script", &program.script},
          {"all_ranks", &program.all_ranks},
          {"definition", &program.definition},
          {"files", Structs(&program.files)}};
}

}  // namespace ringside
