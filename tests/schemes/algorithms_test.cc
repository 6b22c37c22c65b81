// Algorithms as their papers write them, in float64 (make_algorithms.py): what a scheme shares with
// its definition is held against them.
#include <gtest/gtest.h>

#include "core/compress/compressed_bucket.h"
#include "core/models/models.h"
#include "peer/schemes/diloco.h"
#include "peer/schemes/local_sgd.h"
#include "tests/schemes/algorithms_fixture.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

using testing::algorithm_steps;
using testing::algorithm_workers;
using testing::phase_of;
using testing::sines;

class Algorithms : public testing::AlgorithmsTest {
 protected:
  /// How far the compressed sums of steps are from those of the fixture at most, with a bucket of
  /// these pieces for each worker.
  double distance_of_sums(const std::vector<Piece>& pieces, const CompressionOptions& options,
                          const char* name) const {
    double out = 0;
    const std::int64_t count = pieces.back().begin + pieces.back().shape.count();
    std::vector<CompressedBucket> buckets;
    for (int w = 0; w < algorithm_workers; ++w)
      buckets.emplace_back(CompressorContext{.device = *device_,
                                             .options = options,
                                             .pieces = pieces,
                                             .worker = w,
                                             .workers = algorithm_workers,
                                             .seed = 7});
    const auto expected = golden(name).get<std::vector<std::vector<double>>>();
    for (int step = 0; step < algorithm_steps; ++step) {
      const Tensor total = zeros(count);
      for (int w = 0; w < algorithm_workers; ++w)
        buckets[static_cast<std::size_t>(w)].begin(made(sines(count, phase_of(w, step))));
      for (int round = 0; round < buckets[0].rounds(); ++round) {
        std::vector<Tensor> messages;
        for (CompressedBucket& bucket : buckets) {
          const Compressor::Form form = bucket.form(round);
          messages.push_back(device_->tensor({form.count}, MemoryKind::communication, form.dtype));
          bucket.give(round, messages.back());
        }
        if (buckets[0].move() == Compressor::Move::sum) messages = {sum_of(messages)};
        for (CompressedBucket& bucket : buckets) bucket.take(round, messages, total);
      }
      out = std::max(out, distance(total, expected[static_cast<std::size_t>(step)]));
    }
    return out;
  }
};

TEST_F(Algorithms, PowerSgdIsThatOfThePaper) {
  const CompressionOptions options{
      .compressor = "powersgd", .matrix_approximation_rank = 2, .min_compression_rate = 0};
  EXPECT_LT(distance_of_sums({{0, {6, 5}, 0}, {30, {4}, 1}, {34, {3, 8}, 2}}, options, "powersgd"),
            1e-5);
}

/// What all workers' messages stand for together is what each stands for alone, added up: to the
/// bit, tensor by tensor, also where the codes of a tensor do not end with a whole byte or block.
TEST_F(Algorithms, MessagesAreAddedUpInTheOrderOfWorkers) {
  const std::vector<Piece> pieces = {{0, {3, 11}, 0}, {33, {5003}, 1}, {5036, {1}, 2}};
  constexpr std::int64_t count = 5037;
  for (const char* name : {"int8", "int4", "onebit", "topk"}) {
    std::vector<CompressedBucket> buckets;
    std::vector<Tensor> messages;
    for (int w = 0; w < algorithm_workers; ++w) {
      buckets.emplace_back(CompressorContext{.device = *device_,
                                             .options = {.compressor = name, .block = 7},
                                             .pieces = pieces,
                                             .worker = w,
                                             .workers = algorithm_workers,
                                             .seed = 7});
      buckets.back().begin(made(sines(count, phase_of(w, 0))));
      const Compressor::Form form = buckets.back().form(0);
      messages.push_back(device_->tensor({form.count}, MemoryKind::communication, form.dtype));
      buckets.back().give(0, messages.back());
    }
    std::vector<Tensor> alone;
    for (const Tensor& message : messages) {
      alone.push_back(made(std::vector<float>(count, NAN)));
      buckets[0].decode(std::span(&message, 1), alone.back());
    }
    const Tensor total = made(std::vector<float>(count, NAN)), expected = sum_of(alone);
    buckets[0].decode(messages, total);
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(total.data<float>()[i], expected.data<float>()[i]) << name << ", element " << i;
  }
}

TEST_F(Algorithms, DgcIsThatOfThePaper) {
  const CompressionOptions options{.compressor = "dgc", .ratio = 0.25};
  EXPECT_LT(distance_of_sums({{0, {40}, 0}}, options, "dgc"), 1e-5);
  EXPECT_GT(distance_of_sums({{0, {40}, 0}}, options, "unmasked_dgc"), 0.1)
      << "a momentum that is not masked would be found out";
}

TEST_F(Algorithms, DilocoIsThatOfThePaper) {
  const Model model = make_model(testing::tiny("mlp").model, *device_);
  const std::int64_t count = model.parameter_count();
  const peer::Fragment all{0, count};
  std::vector<std::unique_ptr<peer::LocalRule>> rules;
  std::vector<Tensor> replicas;
  for (int w = 0; w < algorithm_workers; ++w) {
    rules.push_back(peer::make_diloco_rule({*device_, model, w, algorithm_workers, algorithm_steps},
                                           {.sync_every = 4}));
    replicas.push_back(made(sines(count, 2)));
    rules.back()->attach(replicas.back());
  }
  for (int step = 0; step < algorithm_steps; ++step) {
    for (int w = 0; w < algorithm_workers; ++w)
      device_->kernels().add({.in = made(sines(count, phase_of(w, step), 0.01F)),
                              .out = replicas[static_cast<std::size_t>(w)]});
    if (!rules[0]->gives(0, step + 1)) continue;
    std::vector<Tensor> messages;
    for (std::size_t w = 0; w < rules.size(); ++w) {
      messages.push_back(zeros(count));
      rules[w]->give(all, replicas[w], messages.back());
    }
    const Tensor sum = sum_of(messages);
    for (std::size_t w = 0; w < rules.size(); ++w)
      rules[w]->take(all,
                     {.messages = std::span(&sum, 1),
                      .summed = algorithm_workers,
                      .last = step + 1 == algorithm_steps},
                     replicas[w]);
  }
  for (const Tensor& replica : replicas)
    EXPECT_LT(distance(replica, golden("diloco").get<std::vector<double>>()), 1e-5);
}

/// Every worker descends to a point of its own, with momentum.
TEST_F(Algorithms, LocalSgdAveragesMoments) {
  const Model model = make_model(testing::tiny("mlp").model, *device_);
  const std::int64_t count = model.parameter_count();
  std::vector<std::unique_ptr<peer::LocalRule>> rules;
  std::vector<std::vector<Tensor>> states;  // of each worker: replica and velocity
  for (int w = 0; w < algorithm_workers; ++w) {
    rules.push_back(peer::make_local_sgd_rule({.device = *device_,
                                               .model = model,
                                               .worker = w,
                                               .workers = algorithm_workers,
                                               .steps = algorithm_steps,
                                               .moments = 1},
                                              {.sync_every = 4, .average_moments = true}));
    states.push_back({made(sines(count, 2)), zeros(count)});
    rules.back()->attach(states.back()[0]);
  }
  for (int step = 0; step < algorithm_steps; ++step) {
    for (int w = 0; w < algorithm_workers; ++w) {
      const std::vector<Tensor>& own = states[static_cast<std::size_t>(w)];
      const Tensor gradient = made(sines(count, phase_of(w, 0)));
      device_->kernels().blend({.in = own[0], .out = gradient, .in_scale = 1, .out_scale = -1});
      device_->kernels().sgd({.parameters = own[0],
                              .gradients = gradient,
                              .velocity = own[1],
                              .lr = 0.1F,
                              .momentum = 0.9F,
                              .step = step + 1});
    }
    const std::vector<peer::Fragment> fragments = rules[0]->fragments();
    ASSERT_EQ(fragments.size(), 2u);
    for (std::size_t f = 0; f < fragments.size(); ++f) {
      if (!rules[0]->gives(f, step + 1)) continue;
      std::vector<Tensor> messages;
      for (std::size_t w = 0; w < rules.size(); ++w) {
        messages.push_back(zeros(count));
        rules[w]->give(fragments[f], states[w][fragments[f].moment], messages.back());
      }
      const Tensor sum = sum_of(messages);
      for (std::size_t w = 0; w < rules.size(); ++w)
        rules[w]->take(fragments[f], {.messages = std::span(&sum, 1), .summed = algorithm_workers},
                       states[w][fragments[f].moment]);
    }
  }
  const auto expected = golden("local_sgd").get<std::vector<std::vector<double>>>();
  for (const std::vector<Tensor>& own : states)
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_LT(distance(own[i], expected[i]), 1e-5);
}

}  // namespace
}  // namespace ringside::runner
