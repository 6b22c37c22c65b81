#include "experiments/run/rank_links.h"

#include <time.h>

#include <functional>
#include <utility>
#include <vector>

#include "core/observe/row.h"
#include "experiments/run/echo.h"

namespace ringside {
namespace {

constexpr std::int64_t small_message = 16, large_message = 1 << 18;  // elements
constexpr int messages = 200;

double process_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Times {
  double wall_s = 0, process_s = 0;  // of one collective: the median, and the mean
};

/// Makes a collective so often, each after all ranks have come.
Times times_of(const RankContext& context, Communicator& comm, int repeats,
               const std::function<WorkPtr()>& begin) {
  std::vector<double> wall;
  double process = 0;
  for (int i = 0; i < repeats; ++i) {
    comm.barrier();
    const double at = context.device.clock().now(), used = process_seconds();
    begin()->wait();
    wall.push_back(context.device.clock().now() - at);
    process += process_seconds() - used;
  }
  return {quantiles(std::move(wall)).median, process / repeats};
}

void time_collectives(const RankContext& context, LinkTimes& out) {
  constexpr std::int64_t small = 1 << 10, large = 1 << 22;  // elements of the whole array
  const auto comm = context.communicator(all_workers(context, "links"));
  const std::int64_t part = large / comm->size();
  const Tensor all = context.device.tensor({part * comm->size()}, MemoryKind::communication);
  const Tensor own = context.device.tensor({part}, MemoryKind::communication);
  for (const Tensor& tensor : {all, own})
    context.device.kernels().fill({.out = tensor, .value = 1});
  const Tensor few = all.range(0, small);
  const auto sum = [&](const Tensor& array) { return [&] { return comm->all_reduce(array); }; };
  times_of(context, *comm, 3, sum(all));  // connections grow fast by then
  const int steps = comm->size() == 2 ? 1 : 2;
  out.step_us = 1e6 * times_of(context, *comm, 200, sum(few)).wall_s / steps;
  const Times gathered = times_of(context, *comm, 21, [&] { return comm->all_gather(own, all); });
  const Times summed = times_of(context, *comm, 21, sum(all));
  const double sent = 4.0 * static_cast<double>(part * (comm->size() - 1));  // by all_gather
  const double steps_s = 3e-6 * out.step_us;  // of an all_gather and an all_reduce
  out.gbs = 1e-9 * 3 * sent / (gathered.wall_s + summed.wall_s - steps_s);
  out.collective_us_per_mb = 1e12 * gathered.process_s / (2 * sent);
}

void time_messages(const RankContext& context, LinkTimes& out) {
  Echo echo(context);
  const EchoTimes small = echo.ask(small_message, messages);
  const EchoTimes large = echo.ask(large_message, messages);
  out.message_wall_us = 1e6 * small.wall_s;
  out.message_us = 1e6 * small.process_s;
  out.message_us_per_mb =
      1e12 * std::max(0.0, large.process_s - small.process_s) / (4.0 * large_message);
}

}  // namespace

RankRecord time_links(const RankContext& context) {
  RankRecord record;
  record.rank = context.rank;
  record.role = context.self().role();
  if (context.self().server >= 0) {
    Echo(context).answer(2 * messages);
    return record;
  }
  LinkTimes times;
  time_collectives(context, times);
  if (context.self().worker + 1 == context.plan.world) {
    time_messages(context, times);
    record.links = times;
  }
  return record;
}

}  // namespace ringside
