// Algorithms as their papers write them, in float64 (make_algorithms.py): what a scheme shares with
// its definition is held against them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/compress/compressed_bucket.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/write_values.h"
#include "core/models/models.h"
#include "peer/schemes/diloco.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

constexpr int algorithm_steps = 20, algorithm_workers = 3;

std::vector<float> sines(std::int64_t count, double phase, float scale = 1) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(scale * static_cast<float>(std::sin(phase + 0.37 * static_cast<double>(i))));
  return out;
}

double phase_of(int worker, int step) { return 1.3 * worker + 0.61 * step; }

class Algorithms : public ::testing::Test {
 protected:
  static nlohmann::json golden(const char* name) {
    std::ifstream in(RINGSIDE_GOLDEN "/algorithms.json");
    return nlohmann::json::parse(in).at(name);
  }
  Tensor made(const std::vector<float>& values) const {
    const Tensor out =
        device_->tensor({static_cast<std::int64_t>(values.size())}, MemoryKind::gradient);
    write_values(*device_, out, values);
    return out;
  }
  Tensor zeros(std::int64_t count) const {
    return made(std::vector<float>(static_cast<std::size_t>(count)));
  }
  Tensor sum_of(const std::vector<Tensor>& messages) const {
    const Tensor sum = zeros(messages[0].count());
    for (const Tensor& message : messages) device_->kernels().add({.in = message, .out = sum});
    return sum;
  }
  /// The norm of the difference divided by the norm of `expected`.
  static double distance(const Tensor& actual, const std::vector<double>& expected) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(double{actual.data<float>()[i]} - expected[i], 2);
      norm += expected[i] * expected[i];
    }
    return std::sqrt(difference / norm);
  }

  /// The compressed sums of all steps, with a bucket of these pieces for each worker, must be those
  /// of the fixture.
  void expect_sums(const std::vector<Piece>& pieces, const CompressionOptions& options,
                   const char* name) const {
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
      EXPECT_LT(distance(total, expected[static_cast<std::size_t>(step)]), 1e-5) << step;
    }
  }

  const std::unique_ptr<Device> device_ = make_cpu_device(1);
};

TEST_F(Algorithms, PowerSgdIsThatOfThePaper) {
  expect_sums({{0, {6, 5}, 0}, {30, {4}, 1}, {34, {3, 8}, 2}},
              {.compressor = "powersgd", .matrix_approximation_rank = 2, .min_compression_rate = 0},
              "powersgd");
}

TEST_F(Algorithms, DgcIsThatOfThePaper) {
  expect_sums({{0, {40}, 0}}, {.compressor = "dgc", .ratio = 0.25}, "dgc");
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
      rules[w]->take(all, {std::span(&sum, 1), {}, step + 1 == algorithm_steps}, replicas[w]);
  }
  for (const Tensor& replica : replicas)
    EXPECT_LT(distance(replica, golden("diloco").get<std::vector<double>>()), 1e-5);
}

}  // namespace
}  // namespace ringside::runner
