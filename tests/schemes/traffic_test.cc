// Bytes that ranks send, against the closed forms of the literature.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/compress/compressed_bucket.h"
#include "core/device/cpu/cpu_device.h"
#include "core/models/models.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/diloco.h"
#include "peer/schemes/dpsgd.h"
#include "peer/schemes/local_sgd.h"
#include "peer/schemes/sgp.h"
#include "ps/schemes/dp.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/schemes/wrong_schemes.h"

namespace ringside::runner {
namespace {

using testing::tiny;

/// A model so wide that the headers of messages are small beside its parameters.
ExperimentConfig wide() {
  auto config = tiny("mlp");
  config.model.width = 160;
  config.model.layers = 3;
  return config;
}

double parameter_bytes(const RunRecord& row) { return 4.0 * static_cast<double>(row.parameters); }

class TrafficAtWorld : public ::testing::TestWithParam<int> {
 protected:
  RunRecord run(const std::string& scheme) const { return run(scheme, default_options(scheme)); }
  RunRecord run(const std::string& scheme, Options options) const {
    auto config = wide();
    config.scheme_options[scheme] = std::move(options);
    return testing::run(plan_training(config, scheme, GetParam()));
  }
  double world() const { return GetParam(); }
};

TEST_P(TrafficAtWorld, DdpSendsTwiceTheGradientButForItsPart) {
  const RunRecord row = run("ddp");
  const double expected = 2 * (world() - 1) / world() * parameter_bytes(row);
  // Parts are whole cache lines, so some ranks reduce a little more than others.
  for (const auto& rank : row.ranks)
    EXPECT_NEAR(rank.bytes_sent_per_step, expected, 64 * world() * world()) << rank.rank;
}

TEST_P(TrafficAtWorld, FsdpSendsThriceTheParametersButForItsPart) {
  const RunRecord row = run("fsdp");
  const double expected = 3 * (world() - 1) / world() * parameter_bytes(row);
  for (const auto& rank : row.ranks)
    EXPECT_NEAR(rank.bytes_sent_per_step, expected, 0.001 * expected + 1) << "rank " << rank.rank;
}

TEST_P(TrafficAtWorld, StagesOneAndTwoOfZeroSendTwiceTheParametersButForTheirPart) {
  for (const char* scheme : {"zero1", "zero2"}) {
    const RunRecord row = run(scheme);
    const double expected = 2 * (world() - 1) / world() * parameter_bytes(row);
    for (const auto& rank : row.ranks)
      EXPECT_NEAR(rank.bytes_sent_per_step, expected, 0.001 * expected + 1) << "rank " << rank.rank;
  }
}

TEST_P(TrafficAtWorld, PsWorkersSendTheirGradientAndServersTheirPartToAll) {
  const RunRecord row = run("ps", ps::PsOptions{.servers = 2});
  for (const auto& rank : row.ranks) {
    const bool worker = rank.role == "worker";
    const double expected = parameter_bytes(row) * (worker ? 1 : world() / 2);
    // A chunk lies on one server, so the parts of the two servers may differ by a chunk.
    EXPECT_NEAR(rank.bytes_sent_per_step, expected, (worker ? 0.02 : 0.35) * expected)
        << rank.role << " " << rank.rank;
  }
  double servers = 0;
  for (const auto& rank : row.ranks)
    if (rank.role == "server") servers += rank.bytes_sent_per_step;
  EXPECT_NEAR(servers, world() * parameter_bytes(row), 0.02 * servers);
}

TEST_P(TrafficAtWorld, ADedicatedMasterOfDpSendsTheParametersToAllWorkers) {
  const RunRecord row = run("dp", ps::DpOptions{.placement = ps::Placement::dedicated});
  const double inputs = 24 * 8 * 4, logits = 24 * 256 * 4;  // bytes of the global batch
  ASSERT_EQ(row.ranks.back().role, "server");
  const double master = world() * parameter_bytes(row) + inputs + logits;
  EXPECT_NEAR(row.ranks.back().bytes_sent_per_step, master, 0.02 * master);
  const double worker = parameter_bytes(row) + logits / world();
  for (int w = 0; w < GetParam(); ++w)
    EXPECT_NEAR(row.ranks[static_cast<std::size_t>(w)].bytes_sent_per_step, worker, 0.02 * worker);
}

TEST_P(TrafficAtWorld, AMasterColocatedWithWorkerZeroSendsThemToTheOthers) {
  const RunRecord row = run("dp");
  const double inputs = 24 * 8 * 4, logits = 24 * 256 * 4;
  ASSERT_EQ(row.ranks.front().role, "worker+server");
  const double master = (world() - 1) * (parameter_bytes(row) + (inputs + logits) / world());
  EXPECT_NEAR(row.ranks.front().bytes_sent_per_step, master, 0.02 * master);
}

/// What a compressor sends of a tensor of n elements, in bytes, and whether an all-reduce or an
/// all-gather moves it (docs/schemes.md).
struct CodedBytes {
  peer::DdpOptions options;
  double (*code)(const Shape& tensor);
  bool summed = false;
};

double times(double bytes, const Shape& tensor) {
  return bytes * static_cast<double>(tensor.count());
}
double blocks_of(const Shape& tensor) {
  return std::ceil(static_cast<double>(tensor.count()) / 256);
}
double hundredth_of(const Shape& tensor) { return std::max(1.0, std::floor(times(0.01, tensor))); }

TEST_P(TrafficAtWorld, CompressorsSendWhatTheirPapersSay) {
  const auto with = [](std::string_view name) {
    CompressionOptions compression;
    compression.compressor = name;
    compression.matrix_approximation_rank = 4;
    return peer::DdpOptions{.compression = compression};
  };
  const CodedBytes all[] = {
      {with("fp16"), [](const Shape& tensor) { return times(2, tensor); }, true},
      {with("bf16"), [](const Shape& tensor) { return times(2, tensor); }, true},
      {with("int8"), [](const Shape& tensor) { return times(1, tensor) + 4 * blocks_of(tensor); }},
      {with("int4"),
       [](const Shape& tensor) { return times(0.5, tensor) + 4 * blocks_of(tensor); }},
      {with("onebit"), [](const Shape& tensor) { return times(0.125, tensor) + 4; }},
      {with("signsgd"), [](const Shape& tensor) { return times(0.125, tensor); }},
      {with("topk"), [](const Shape& tensor) { return 8 * hundredth_of(tensor); }},
      {with("dgc"), [](const Shape& tensor) { return 8 * hundredth_of(tensor); }},
      {with("randomk"), [](const Shape& tensor) { return 4 * hundredth_of(tensor); }, true},
      {with("powersgd"),
       [](const Shape& tensor) {
         if (tensor.rank() < 2) return times(4, tensor);
         const auto rows = static_cast<double>(tensor[0]), columns = times(1, tensor) / rows;
         return 4 * std::min(4 * (rows + columns), rows * columns);
       },
       true}};
  const auto device = make_cpu_device(1);
  const Model model = make_model(wide().model, *device);
  for (const CodedBytes& one : all) {
    double code = 0;
    int tensors = 0;
    for (const Piece& piece : pieces_of(model, 0, model.parameter_count())) {
      code += one.code(piece.shape);
      ++tensors;
    }
    const double expected = one.summed ? 2 * (world() - 1) / world() * code : (world() - 1) * code;
    // Each code is a whole number of words, and parts of an all-reduce are whole cache lines.
    const double padding = one.summed ? 64 * world() * world() * 4 : 4 * (world() - 1) * tensors;
    for (const RankRecord& rank : run("ddp", one.options).ranks) {
      EXPECT_GE(rank.bytes_sent_per_step, 0.99 * expected - (one.summed ? padding : 1))
          << one.options.compression.compressor;
      EXPECT_LE(rank.bytes_sent_per_step, 1.01 * expected + padding)
          << one.options.compression.compressor;
    }
  }
}

/// The bytes of a step in an all-reduce of 4 bytes a parameter.
TEST_P(TrafficAtWorld, LocalStepsDivideTheBytesByTheirNumber) {
  auto config = wide();
  config.train.steps = 21;
  config.train.warmup = 5;
  for (const char* scheme : {"local_sgd", "diloco"})
    // Steps 6 to 21 are measured, and the last step averages too.
    for (const auto& [every, averagings] : {std::pair(1, 16.0), {4, 5.0}, {8, 3.0}}) {
      if (std::string(scheme) == "diloco")
        config.scheme_options[scheme] = peer::DilocoOptions{.sync_every = every};
      else
        config.scheme_options[scheme] = peer::LocalSgdOptions{.sync_every = every};
      const RunRecord row = testing::run(plan_training(config, scheme, GetParam()));
      const double once = 2 * (world() - 1) / world() * parameter_bytes(row);
      for (const RankRecord& rank : row.ranks)
        EXPECT_NEAR(rank.bytes_sent_per_step, once * averagings / 16, 64 * world() * world())
            << scheme << " every " << every;
    }
}

/// A ring has two neighbours, and one where there are two workers; push-sum sends a weight too.
TEST_P(TrafficAtWorld, GossipSendsTheReplicaToEveryNeighbour) {
  const int neighbours = std::min(GetParam() - 1, 2);
  for (const auto& [scheme, targets, weight] :
       {std::tuple("dpsgd", neighbours, 0), std::tuple("sgp", GetParam() > 1 ? 1 : 0, 4)}) {
    auto config = wide();
    if (std::string(scheme) == "sgp")
      config.scheme_options[scheme] = peer::SgpOptions{.graph = peer::Graph::one_peer};
    const RunRecord row = testing::run(plan_training(config, scheme, GetParam()));
    const double expected = targets * (parameter_bytes(row) + weight);
    for (const RankRecord& rank : row.ranks)
      EXPECT_NEAR(rank.bytes_sent_per_step, expected, 0.01 * expected + 64) << scheme;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, TrafficAtWorld, ::testing::Values(1, 2, 3, 4));

using SchemeTraffic = testing::SchemeAtWorld;

TEST_P(SchemeTraffic, IsNotMuchMoreThanTheMinimum) {
  auto config = wide();
  if (!exact()) {
    // An algorithm of its own may communicate every few steps. 32 measured steps have the mean
    // traffic of a long run if their number is a multiple of that.
    config.train.steps = 48;
    config.train.warmup = 16;
  }
  const RunRecord row = testing::run(plan_of(config));
  EXPECT_THAT(testing::missing_traffic(row), ::testing::IsEmpty());
  // A chunk lies on one server, so the busier of two servers may have a chunk more. Replicas may
  // exchange everything once more after the last step.
  const double at_the_end = tried().info->own_replicas ? 2 * parameter_bytes(row) / 32 : 0;
  EXPECT_LE(testing::busiest(row), 1.35 * row.bytes_minimum_per_step + at_the_end);
}

INSTANTIATE_TEST_SUITE_P(Registry, SchemeTraffic, testing::every_scheme_at({1, 2, 3, 4}),
                         testing::name_of_case);

/// Sends 8 bytes in every step, which traffic() counts only when it is called the second time, or
/// when drain() has waited for them.
class SendsLate : public testing::Wrapped {
 public:
  using Wrapped::Wrapped;

  bool step(const StepInfo& info) override {
    on_the_way_ += 8;
    called_ = false;
    return Wrapped::step(info);
  }
  void drain() override {
    arrive();
    Wrapped::drain();
  }
  Traffic traffic() const override {
    if (std::exchange(called_, true)) arrive();
    return {sent_, sent_};
  }

 private:
  void arrive() const { sent_ += std::exchange(on_the_way_, 0); }

  mutable bool called_ = false;
  mutable std::int64_t sent_ = 0, on_the_way_ = 0;
};

TEST(Traffic, ThatEndsBetweenTwoStepsIsCounted) {
  const SchemeInfo late = testing::wrapping<SendsLate>("single");
  for (auto config : {tiny("mlp"), testing::evaluating()}) {
    config.train.steps = 9;
    config.train.warmup = 2;
    const RunRecord row = testing::run(plan_training(config, "single", 1), &late);
    EXPECT_EQ(row.ranks[0].bytes_sent_per_step, 8);
    EXPECT_EQ(row.ranks[0].bytes_received_per_step, 8);
    EXPECT_EQ(row.ranks[0].evaluation_bytes.sent, 0);
  }
}

}  // namespace
}  // namespace ringside::runner
