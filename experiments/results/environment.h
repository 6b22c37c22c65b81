// What a run ran on.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ringside {

struct Program {
  std::filesystem::path file;
  std::string built_commit;  // see experiments/cli/built_commit.h
};

/// Processor, cores, memory, operating system, kernel, compiler, shared libraries with their
/// versions, the commit that the program was built from, a hash of its file, the commit that is
/// checked out now in the folders above it, and those of `variables` ("NAME=value") that change how
/// a run behaves; with `gpus` also those, their driver and libraries. What cannot be found out is
/// null.
nlohmann::ordered_json describe_environment(const std::vector<std::string>& variables,
                                            const Program& program, bool gpus);

/// Throws Error that names the first of built commit, processor and cores in which `now` differs
/// from `before`: figures of both do not belong into one table. Where the commit does not say all
/// (dirty or unknown), the programs must be the same file.
void check_same_environment(const nlohmann::json& before, const nlohmann::json& now);

/// The commit that is checked out in the repository that `folder` lies in; empty if there is none.
std::string git_commit(const std::filesystem::path& folder);

}  // namespace ringside
