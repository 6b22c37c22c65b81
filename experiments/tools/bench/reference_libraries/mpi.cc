// One rank of MPI under `ringside bench comm --beside`: a program for each library of MPI, started
// by that library's launcher.
#include <fmt/format.h>
#include <mpi.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "core/base/error.h"
#include "experiments/tools/bench/rank/host_rank.h"

namespace ringside::tools::bench {
namespace {

/// An error of MPI ends all its ranks: that is what MPI does by default.
class MpiRank : public HostRank {
 public:
  using HostRank::HostRank;

  void meet() override { MPI_Barrier(MPI_COMM_WORLD); }

  void call(const std::string&) override {
    const auto n = static_cast<int>(count()), in_part = static_cast<int>(part());
    if (operation() == "all_reduce")
      MPI_Allreduce(MPI_IN_PLACE, array(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (operation() == "reduce_scatter")
      MPI_Reduce_scatter_block(array(), other(), in_part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (operation() == "all_gather")
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, array(), in_part, MPI_FLOAT,
                    MPI_COMM_WORLD);
    else if (operation() == "broadcast")
      MPI_Bcast(array(), n, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (operation() == "all_to_all")
      MPI_Alltoall(array(), in_part, MPI_FLOAT, other(), in_part, MPI_FLOAT, MPI_COMM_WORLD);
    else
      throw Error("MPI has no {} here", operation());
  }
};

bool run(const std::string& bench) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MpiRank served(rank, ranks);
  return serve(bench, rank, served);
}

}  // namespace
}  // namespace ringside::tools::bench

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 2) {
    fmt::print(stderr, "this program is started by `ringside bench comm --beside`\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  bool good = false;
  try {
    good = ringside::tools::bench::run(argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  if (!good) MPI_Abort(MPI_COMM_WORLD, 1);  // the others may wait for this rank within MPI
  MPI_Finalize();
  return 0;
}
