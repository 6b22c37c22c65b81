// Whole runs of a tiny model, with ranks as threads.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "core/comm/store.h"
#include "core/device/cpu/cpu_device.h"
#include "core/models/mlp.h"
#include "core/num/random.h"
#include "core/scheme/single.h"
#include "core/train/trainer.h"
#include "ps/schemes/placement.h"
#include "ps/transport/host_transport.h"

namespace ringside::testing {

/// Random tokens; each token depends only on its position in the data.
class RandomTokens : public Dataset {
 public:
  explicit RandomTokens(const ModelConfig& model) : model_(model) {}
  std::int64_t size() const override { return 1000; }
  Shape input_shape() const override { return {model_.context}; }
  DType input_dtype() const override { return DType::i32; }
  Shape target_shape() const override { return {1}; }
  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    auto* tokens = reinterpret_cast<std::int32_t*>(input.data());
    for (std::int64_t i = 0; i < model_.context; ++i) tokens[i] = token(sample + i);
    target[0] = token(sample + model_.context);
  }

 private:
  std::int32_t token(std::int64_t at) const {
    const auto bits = random_bits(9, Stream::sampler, static_cast<std::uint64_t>(at));
    return static_cast<std::int32_t>(bits % static_cast<std::uint64_t>(model_.vocabulary));
  }
  ModelConfig model_;
};

/// A plan for a model with 1,331 parameters in four units. The model's width, context and
/// vocabulary are prime numbers.
inline RunPlan tiny_plan(int world, const ps::ServerCounts& servers, std::int64_t micro_batches) {
  RunPlan plan;
  plan.world = world;
  plan.servers = static_cast<int>(servers.all);
  plan.model = {.kind = "mlp", .layers = 2, .width = 19, .context = 5, .vocabulary = 23};
  plan.train.steps = 4;
  plan.train.warmup = 1;
  plan.train.global_batch = 24;
  plan.train.accumulation = micro_batches;
  plan.train.timeout_s = 30;
  plan.optimizer.lr = 0.01;
  plan.optimizer.weight_decay = 0.1;
  const auto colocated = static_cast<int>(servers.colocated);
  for (int r = 0; r < world; ++r)
    plan.ranks.push_back({.rank = r, .worker = r, .server = r < colocated ? r : -1});
  for (int s = colocated; s < plan.servers; ++s)
    plan.ranks.push_back({.rank = world + s - colocated, .worker = -1, .server = s});
  return plan;
}
inline RunPlan tiny_plan(int world, int servers, bool colocated, std::int64_t micro_batches) {
  return tiny_plan(world, {.all = servers, .colocated = colocated ? servers : 0}, micro_batches);
}

using Make = std::function<std::unique_ptr<SyncScheme>(const RankContext&)>;
using Serve = std::function<RankRecord(const RankContext&, Model&, const Loader&)>;

struct RankResult {
  RankRecord worker, server;  // one of them is empty if the rank has only the other role
  std::string error;
};

/// The links that ranks on one host have.
inline Links links_to_servers() { return {nullptr, ps::host_transport}; }

using MakeDevice = std::function<std::unique_ptr<Device>()>;

/// Runs one rank as a rank process does.
inline void run_rank(const RunPlan& plan, int rank, Store& store, const Make& make,
                     const Serve& serve, const MakeDevice& make_device, const Links& links,
                     RankResult& result) {
  const RankPlan& self = plan.ranks[static_cast<std::size_t>(rank)];
  const auto device = make_device();
  Model model = make_mlp(plan.model, *device);
  const RandomTokens data(plan.model);
  const auto seed = static_cast<std::uint64_t>(plan.train.seed);
  const Loader loader(data, *device, plan.train.global_batch, seed);
  Timeline timeline(*device);
  Shared shared;
  const RankContext context{plan, rank, *device, store, timeline, &shared, {}, links};
  std::future<RankRecord> server;
  if (self.server >= 0)
    server = std::async(std::launch::async, [&] { return serve(context, model, loader); });
  if (self.worker >= 0) {
    const auto scheme = make(context);
    result.worker =
        Trainer(context, model, *scheme, loader, plan.train.evaluate_every > 0 ? &loader : nullptr)
            .run([](const Progress&) {});
  }
  if (server.valid()) result.server = server.get();
}

inline std::vector<RankResult> run_ranks(
    const RunPlan& plan, const Make& make, const Serve& serve,
    const MakeDevice& make_device = [] { return make_cpu_device(1); },
    const Links& links = links_to_servers()) {
  MemoryStore store;
  std::vector<RankResult> results(plan.ranks.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < results.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        run_rank(plan, static_cast<int>(r), store, make, serve, make_device, links, results[r]);
      } catch (const std::exception& error) {
        results[r].error = error.what();
      }
    });
  threads.clear();
  return results;
}

/// Runs one process that does the work of all ranks, and adds up their gradients in rank order.
inline RankRecord reference(int world, std::int64_t micro_batches,
                            std::int64_t evaluate_every = 0) {
  RunPlan plan = tiny_plan(1, 0, false, world * micro_batches);
  plan.train.evaluate_every = evaluate_every;
  const auto make = [&](const RankContext& context) {
    return make_single(context, {.replicas = world});
  };
  const auto results = run_ranks(plan, make, nullptr);
  EXPECT_EQ(results[0].error, "");
  return results[0].worker;
}

inline void expect_run_of(const RankRecord& reference, const RunPlan& plan,
                          const std::vector<RankResult>& results) {
  for (const RankResult& result : results) EXPECT_EQ(result.error, "");
  EXPECT_EQ(results[0].worker.parameter_hashes, reference.parameter_hashes);
  for (std::size_t w = 1; w < static_cast<std::size_t>(plan.world); ++w)
    EXPECT_EQ(results[w].worker.parameter_hashes, reference.parameter_hashes) << "worker " << w;
  // Orders the losses by step, worker and micro-batch, as those of the reference are.
  const auto each = static_cast<std::size_t>(plan.train.accumulation);
  std::vector<double> losses;
  for (std::size_t i = 0; i < results[0].worker.losses.size(); i += each)
    for (int w = 0; w < plan.world; ++w)
      for (std::size_t m = 0; m < each; ++m)
        losses.push_back(results[static_cast<std::size_t>(w)].worker.losses.at(i + m));
  EXPECT_EQ(losses, reference.losses);
}

}  // namespace ringside::testing
