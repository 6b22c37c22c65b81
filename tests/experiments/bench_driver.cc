// A library that does not exist, for tests of `ringside bench comm --beside`: its ranks know what
// the results have to be, and fail in the way that the first argument says.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "experiments/tools/bench/rank/host_rank.h"

namespace ringside::tools::bench {
namespace {

class MadeUp : public HostRank {
 public:
  MadeUp(int rank, int ranks, std::string mode, std::string folder)
      : HostRank(rank, ranks), ranks_(ranks), mode_(std::move(mode)), folder_(std::move(folder)) {}

  void prepare(const CommOperation& operation, std::int64_t count) override {
    if (mode_ == "litters" && prepared_++ == 1) litter();
    HostRank::prepare(operation, count);
  }
  void meet() override {}
  void call(const std::string&) override {
    if (operation() != "all_reduce") throw std::runtime_error("only all_reduce");
    const auto ranks = static_cast<float>(ranks_);
    for (std::size_t i = 0; i < count(); ++i)
      array()[i] = ranks * (ranks + 1) / 2 + ranks * static_cast<float>(i % 31);
    if (rank() != 1) return;
    if (mode_ == "errs") array()[count() / 2] += 1;
    if (mode_ == "dies" && ++calls_ == 3) raise(SIGKILL);
    if (mode_ == "complains") throw std::runtime_error("no\nmemory");
  }

 private:
  /// Leaves a file and a process that nobody waits for, says where, and never comes back.
  void litter() const {
    std::ofstream(folder_ + "/litter") << "litter";
    if (rank() == 0 && fork() == 0) {
      setsid();
      if (fork() != 0) _exit(0);
      std::ofstream("litter.draft") << folder_ << ' ' << getpid();
      rename("litter.draft", "litter.txt");
    }
    for (;;) pause();
  }

  int ranks_, calls_ = 0, prepared_ = 0;
  std::string mode_, folder_;
};

}  // namespace
}  // namespace ringside::tools::bench

/// MODE SOCKET RANK RANKS FOLDER
int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::string mode = argv[1];
  if (mode == "refuses") {
    std::fprintf(stderr, "----\n  no licence\n");
    return 3;
  }
  const int rank = std::stoi(argv[3]), ranks = std::stoi(argv[4]);
  ringside::tools::bench::MadeUp served(rank, ranks, mode, argv[5]);
  return ringside::tools::bench::serve(std::string(argv[2]), rank, served) ? 0 : 1;
}
