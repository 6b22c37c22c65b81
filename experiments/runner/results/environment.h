// The environment in which a run was made: hardware, software and settings.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ringside::runner {

struct Program {
  std::filesystem::path file;
  std::string built_commit;  // see experiments/tools/cli/built_commit.h
};

/// Describes processor, cores, memory, operating system, kernel, compiler, shared libraries with
/// their versions, the commit that the program was built from, a hash of the program's file, the
/// commit that is checked out in the program's folder or a folder above it, and those of
/// `variables` ("NAME=value") that change how a run behaves. If `gpus` is true, also describes the
/// GPUs, their driver and their libraries. A value that cannot be determined is null.
nlohmann::ordered_json describe_environment(const std::vector<std::string>& variables,
                                            const Program& program, bool gpus);

/// Throws Error if `now` differs from `before` in built commit, processor or cores, since figures
/// from two environments do not belong in one table; the error names the first difference. If the
/// commit is dirty or unknown, the hashes of the program's file must also be equal.
void check_same_environment(const nlohmann::json& before, const nlohmann::json& now);

/// The commit that is checked out in the repository around `folder`; empty if `folder` lies in
/// none.
std::string git_commit(const std::filesystem::path& folder);

}  // namespace ringside::runner
