// Our all-reduce over Gloo beside Gloo's own: hosts_bench_gloo RANK RANKS FOLDER ADDRESS
#include <fmt/format.h>

#include <cstdlib>

#include "tests/bench/gloo_library.h"
#include "tests/hosts/file_store.h"

int main(int argc, char** argv) {
  using namespace ringside;
  if (argc != 5) return 2;
  const int rank = std::atoi(argv[1]), ranks = std::atoi(argv[2]);
  try {
    testing::FileStore store(argv[3]);
    bench::compare_with({bench::gloo_library(rank, ranks, argv[3], argv[4])}, store, rank, ranks,
                        argv[4]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    return 1;
  }
}
