#include "tests/bench/hosts_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <utility>

#include "core/base/seconds_now.h"
#include "core/comm/window.h"
#include "core/device/cpu/cpu_device.h"

namespace ringside::bench {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

}  // namespace

void compare_with(const std::vector<Library>& libraries, Store& store, int rank, int ranks,
                  const std::string& address) {
  const auto device = make_cpu_device(1);
  std::vector<int> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(r * 2 / ranks);
  std::vector<std::unique_ptr<Communicator>> comms;
  for (const Library& library : libraries) {
    const Group group{fmt::format("over {}", name_of(library.between)), rank, ranks};
    comms.push_back(peer::make_hosts_communicator(*device, store, group,
                                                  {hosts, library.between, address, 60}));
  }
  const Tensor time = device->tensor({ranks}, MemoryKind::communication);
  // Waits of one library keep the cores busy for others: ranks come together by the one measured.
  const auto slowest = [&](Communicator& comm, const std::function<void()>& operation) {
    comm.barrier();
    const double begin = seconds_now();
    operation();
    const Tensor mine = time.range(rank, 1);
    mine.data<float>()[0] = static_cast<float>(seconds_now() - begin);
    comm.all_gather(mine, time)->wait();
    return static_cast<double>(*std::max_element(time.data<float>(), time.data<float>() + ranks));
  };
  // The same on all ranks. What ran just before makes the next all-reduce faster or slower: where
  // Gloo's own always came before ours over MPI, ours took up to 16% longer over 1 MB.
  std::mt19937 random(1);
  std::vector<std::pair<std::size_t, bool>> order;  // the library, and whether it is ours over it
  for (std::size_t i = 0; i < libraries.size(); ++i)
    for (const bool is_ours : {true, false}) order.emplace_back(i, is_ours);
  for (const auto& [kilobytes, rounds] :
       {std::pair{4, 500}, std::pair{1'000, 200}, std::pair{16'000, 30}, std::pair{100'000, 9}}) {
    const std::int64_t count = std::int64_t{kilobytes} * 1'000 / 4;
    const Tensor array = device->tensor({count}, MemoryKind::communication);
    std::fill_n(array.data<float>(), count, 0.0F);
    std::vector<std::vector<double>> ours(libraries.size()), theirs(libraries.size());
    for (int round = 0; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const auto& turn : order) {
        const std::size_t i = turn.first;
        Communicator& comm = *comms[i];
        if (turn.second)
          ours[i].push_back(
              slowest(comm, [&] { comm.complete([&] { return comm.all_reduce(array); }); }));
        else
          theirs[i].push_back(slowest(comm, [&] { libraries[i].own(array.data<float>(), count); }));
      }
    }
    if (rank != 0) continue;
    for (std::size_t i = 0; i < libraries.size(); ++i)
      fmt::print(
          R"({{"library": "{}", "ranks": {}, "kb": {}, "ours_us": {:.1f}, "own_us": {:.1f}, )"
          R"("ratio": {:.3f}, "ratio_of_least": {:.3f}}})"
          "\n",
          name_of(libraries[i].between), ranks, kilobytes, 1e6 * median(ours[i]),
          1e6 * median(theirs[i]), median(ours[i]) / median(theirs[i]),
          least(ours[i]) / least(theirs[i]));
    std::fflush(stdout);
  }
}

}  // namespace ringside::bench
