// Collectives of ranks on several hosts, over MPI.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "peer/comm/mpi/wire.h"
#include "tests/hosts/file_store.h"

namespace ringside::testing {
namespace {

/// Runs four ranks (mpi_ranks.cc) under the launcher.
void expect_right_bits(InterHostBackend library, const std::string& launcher, const char* options) {
  if (!std::filesystem::exists(launcher))
    GTEST_SKIP() << "the launcher of " << name_of(library) << " is missing";
  if (const std::string cause = peer::why_no_mpi(library); !cause.empty()) GTEST_SKIP() << cause;
  const TemporaryFolder folder;
  // Open MPI keeps memory until the process ends, of which a sanitizer would complain.
  const std::string command =
      fmt::format("ASAN_OPTIONS=detect_leaks=0 {} {} -n 4 {} {} {}", launcher, options,
                  RINGSIDE_MPI_RANKS, name_of(library), folder.path().string());
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

TEST(HostsOverMpi, OpenMpiHasTheBitsOfSumsInRankOrder) {
  // Without the last option Open MPI refuses to be started by root.
  expect_right_bits(InterHostBackend::openmpi, RINGSIDE_OPENMPI_LAUNCHER,
                    "--oversubscribe --allow-run-as-root");
}

TEST(HostsOverMpi, MpichHasTheBitsOfSumsInRankOrder) {
  expect_right_bits(InterHostBackend::mpich, RINGSIDE_MPICH_LAUNCHER, "");
}

}  // namespace
}  // namespace ringside::testing
