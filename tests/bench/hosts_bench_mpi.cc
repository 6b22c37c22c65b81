// Our all-reduce over MPI beside MPI's own, and both over Gloo, if this build has it:
// mpirun -n RANKS hosts_bench_LIBRARY LIBRARY FOLDER ADDRESS
#include <fmt/format.h>
#include <mpi.h>

#include "peer/comm/mpi/wire.h"
#include "tests/bench/hosts_bench.h"
#include "tests/hosts/file_store.h"
#ifdef RINGSIDE_BESIDE_GLOO
#include "tests/bench/gloo_library.h"
#endif

int main(int argc, char** argv) {
  using namespace ringside;
  if (argc != 4) return 2;
  int provided = 0, rank = 0, ranks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    testing::FileStore store(argv[2]);
    std::vector<bench::Library> libraries = {
        {*value_named<InterHostBackend>(argv[1]), [](float* array, std::int64_t count) {
           MPI_Allreduce(MPI_IN_PLACE, array, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                         MPI_COMM_WORLD);
         }}};
#ifdef RINGSIDE_BESIDE_GLOO
    libraries.push_back(bench::gloo_library(rank, ranks, argv[2], argv[3]));
#endif
    bench::compare_with(libraries, store, rank, ranks, argv[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
