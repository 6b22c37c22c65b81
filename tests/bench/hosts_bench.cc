#include "tests/bench/hosts_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/base/seconds_now.h"
#include "core/comm/window.h"
#include "core/device/cpu/cpu_device.h"
#include "peer/comm/shm/communicator.h"

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

void compare_with(Between between, Store& store, int rank, int ranks, const LibrarysOwn& own) {
  const auto device = make_cpu_device(1);
  std::vector<int> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(r * 2 / ranks);
  const auto comm = peer::make_hosts_communicator(*device, store, {"ours", rank, ranks},
                                                  {hosts, between, "127.0.0.1", 60});
  // Times are compared through memory, as it does not matter here that ranks share a host.
  const auto beside = peer::make_shm_communicator(*device, store, {"beside", rank, ranks}, 60);
  const Tensor time = device->tensor({ranks}, MemoryKind::communication);
  const auto slowest = [&](const std::function<void()>& operation) {
    beside->barrier();
    const double begin = seconds_now();
    operation();
    const Tensor mine = time.range(rank, 1);
    mine.data<float>()[0] = static_cast<float>(seconds_now() - begin);
    beside->all_gather(mine, time)->wait();
    return static_cast<double>(*std::max_element(time.data<float>(), time.data<float>() + ranks));
  };
  for (const auto& [kilobytes, rounds] :
       {std::pair{4, 500}, std::pair{1'000, 200}, std::pair{16'000, 30}, std::pair{100'000, 9}}) {
    const std::int64_t count = std::int64_t{kilobytes} * 1'000 / 4;
    const Tensor array = device->tensor({count}, MemoryKind::communication);
    std::fill_n(array.data<float>(), count, 0.0F);
    std::vector<double> ours, theirs;
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(slowest([&] { comm->complete([&] { return comm->all_reduce(array); }); }));
      theirs.push_back(slowest([&] { own(array.data<float>(), count); }));
    }
    if (rank == 0)
      fmt::print(
          "{:8} 2 x {} {:7} KB  ours {:8.3f} ms  its own {:8.3f} ms  ratio {:.2f}, of the least "
          "times {:.2f}\n",
          name_of(between), ranks / 2, kilobytes, 1e3 * median(ours), 1e3 * median(theirs),
          median(ours) / median(theirs), least(ours) / least(theirs));
    std::fflush(stdout);
  }
}

}  // namespace ringside::bench
