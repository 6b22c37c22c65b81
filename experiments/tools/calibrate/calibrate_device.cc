#include <algorithm>
#include <map>

#include "core/device/cpu/cpu_device.h"
#include "core/device/sim/timed_operations.h"
#include "core/models/resnet.h"
#include "core/observe/run_record.h"
#include "core/plan/same_run.h"
#include "experiments/tools/calibrate/calibrate.h"
#include "experiments/tools/calibrate/curves.h"
#include "experiments/tools/calibrate/timed_training.h"

namespace ringside::tools::calibrate {
namespace {

/// The measured operations, and the mean time between two of them.
struct Measurements {
  std::vector<sim::TimedOperation> ops;
  std::vector<double> gaps;  // seconds; one value for each plan
};

RunPlan plan_of(const ModelConfig& model, std::int64_t batch, std::int64_t micro_batches,
                Precision precision = Precision::fp32) {
  RunPlan plan;
  plan.scheme = reference_scheme;
  plan.model = model;
  plan.train.global_batch = batch;
  plan.train.accumulation = micro_batches;
  plan.train.precision = precision;
  plan.data.kind = model.kind == "resnet" ? "synthetic-images" : "synthetic";
  plan.data.holdout = 0;
  plan.ranks = {{0, 0, -1}};
  return plan;
}

/// Adds every operation of a training step.
void measure_training(Measurements& out, const RunPlan& plan, std::int64_t threads) {
  const std::vector<TimedOp> ops = time_training(plan, threads);
  double gaps = 0;
  for (const TimedOp& op : ops) {
    out.ops.push_back(sim::timed_operation(op.cost, op.seconds));
    gaps += op.before;
  }
  out.gaps.push_back(gaps / static_cast<double>(ops.size()));
}

/// Returns the share of its speed that a core keeps while all cores train. This is the best of
/// several tries, since other work on the machine only lowers the share.
double measure_busy_share(RunPlan plan, std::int64_t ranks, std::int64_t threads,
                          const CalibrationSite& site) {
  constexpr int tries = 3;
  plan.device.threads = threads;
  const auto fast_step = [&](int beside) {
    return timed_run(plan, beside, {.repeat = 1}, site).step_ms.p10;
  };
  double best = 0;
  for (int i = 0; i < tries; ++i)
    best = std::max(best, fast_step(1) / fast_step(static_cast<int>(ranks)));
  return std::min(1.0, best);
}

/// Measures a flat operation on pieces of `count` elements: runs it on one piece after the other of
/// arrays of `whole` elements, as schemes do with buckets, shards and chunks.
template <class Op>
void measure_flat(Measurements& out, Device& device, std::int64_t count, const Kernel<Op>& kernel,
                  const std::function<Op(std::int64_t begin)>& piece, std::int64_t whole) {
  constexpr std::size_t least = 16, most = 512;
  std::vector<double> times;
  for (std::int64_t begin = 0; times.size() < most; begin += count) {
    if (begin + count > whole) {
      if (times.size() >= least) break;
      begin = 0;
    }
    const Op op = piece(begin);
    const double start = device.clock().now();
    kernel(op);
    times.push_back(device.clock().now() - start);
  }
  out.ops.push_back(sim::timed_operation(cost(piece(0)), quantiles(std::move(times)).median));
}

void measure_flats(Measurements& out, std::int64_t threads) {
  const auto device = make_cpu_device(static_cast<int>(threads));
  const Kernels& kernels = device->kernels();
  constexpr std::int64_t whole = 1 << 23;  // elements
  std::vector<Tensor> arrays;
  for (int i = 0; i < 4; ++i) {
    arrays.push_back(device->tensor({whole}, MemoryKind::workspace));
    kernels.fill({.out = arrays.back(), .value = 0.5f});
  }
  for (std::int64_t count = 1 << 10; count <= whole / 2; count *= 4) {
    measure_flat<Add>(
        out, *device, count, kernels.add,
        [&](std::int64_t begin) {
          return Add{.in = arrays[0].range(begin, count), .out = arrays[1].range(begin, count)};
        },
        whole);
    measure_flat<Copy>(
        out, *device, count, kernels.copy,
        [&](std::int64_t begin) {
          return Copy{.in = arrays[2].range(begin, count), .out = arrays[3].range(begin, count)};
        },
        whole);
    measure_flat<AdamW>(
        out, *device, count, kernels.adamw,
        [&](std::int64_t begin) {
          return AdamW{.parameters = arrays[0].range(begin, count),
                       .gradients = arrays[1].range(begin, count),
                       .first_moment = arrays[2].range(begin, count),
                       .second_moment = arrays[3].range(begin, count),
                       .lr = 1e-4f,
                       .beta1 = 0.9f,
                       .beta2 = 0.95f,
                       .epsilon = 1e-8f};
        },
        whole);
  }
}

}  // namespace

void measure_device(sim::DeviceSpec& device, const std::set<Precision>& precisions,
                    std::int64_t threads, const CalibrationSite& site) {
  Measurements all;
  struct {
    const char* kind;
    std::int64_t layers, heads, width, context, batch, micro_batches;
    bool in_16_bits;  // whether it is also measured in 16 bits
  } shapes[] = {{"gpt", 2, 4, 32, 32, 16, 1, false},  {"gpt", 2, 2, 64, 64, 4, 1, false},
                {"gpt", 4, 4, 128, 128, 8, 1, false}, {"gpt", 4, 4, 128, 128, 8, 2, true},
                {"gpt", 2, 4, 256, 128, 8, 1, false}, {"gpt", 2, 6, 384, 256, 4, 1, true},
                {"gpt", 1, 8, 768, 256, 2, 1, false}, {"mlp", 2, 1, 256, 32, 32, 1, false},
                {"mlp", 2, 1, 1024, 32, 64, 2, false}};
  // The last one has convolutions with groups. Their cost counts tiles of GPUs
  // (core/device/cost.h), so the efficiency of other convolutions would make them up to 16 times
  // too slow here.
  struct {
    std::int64_t layers, filters, batch, groups, group_width;
  } images[] = {{10, 16, 8, 1, 64}, {10, 64, 16, 1, 64}, {14, 64, 8, 32, 4}};
  for (const Precision precision : precisions) {
    for (const auto& s : shapes)
      if (precision == Precision::fp32 || s.in_16_bits)
        measure_training(all,
                         plan_of({.kind = s.kind,
                                  .layers = s.layers,
                                  .heads = s.heads,
                                  .width = s.width,
                                  .context = s.context},
                                 s.batch, s.micro_batches, precision),
                         threads);
    for (const auto& s : images)
      measure_training(
          all,
          plan_of(ModelConfig{.kind = "resnet", .layers = s.layers, .filters = s.filters}.with(
                      ResnetOptions{.groups = s.groups, .group_width = s.group_width}),
                  s.batch, 1, precision),
          threads);
  }
  measure_flats(all, threads);
  const std::int64_t ranks = std::min(device.cores, site.slots);
  if (ranks > 1)
    device.busy_share =
        measure_busy_share(plan_of({.layers = 4, .heads = 4, .width = 128, .context = 128}, 8, 1),
                           ranks, threads, site);
  device.launch_us = std::max(0.0, quantiles(all.gaps).median * 1e6);
  set_roofline(device, all.ops);
  set_efficiency(device, all.ops);
}

}  // namespace ringside::tools::calibrate
