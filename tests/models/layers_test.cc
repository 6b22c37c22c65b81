// Single layers: statistics of batch norms, elements that dropout drops, buckets of distances.
#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/nn/position_table.h"
#include "core/nn/relative_bias.h"
#include "tests/models/bound_model.h"
#include "tests/support/layer_units.h"

namespace ringside {
namespace {

using testing::BatchNormUnit;
using testing::DropoutUnit;
using testing::forward_of;
using testing::MicroBatch;

constexpr std::int64_t rows = 6, channels = 3;

/// The mean of each channel, then the variance of each channel (divided by n - 1).
std::vector<double> statistics_of(std::span<const float> x) {
  std::vector<double> out(2 * channels);
  const auto n = static_cast<double>(x.size()) / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = c; i < x.size(); i += channels) out[c] += x[i] / n;
    for (std::size_t i = c; i < x.size(); i += channels)
      out[channels + c] += (x[i] - out[c]) * (x[i] - out[c]) / (n - 1);
  }
  return out;
}

/// The values of all running statistics of the unit: element m holds those of micro-batch m.
std::vector<std::vector<float>> running_by_micro_batch(const Unit& unit) {
  std::vector<std::vector<float>> out(unit.statistics()[0].later.size() + 1);
  for (const Unit::Statistic& statistic : unit.statistics())
    for (std::size_t m = 0; m < out.size(); ++m)
      for (float v : download(m == 0 ? statistic.values : statistic.later[m - 1]))
        out[m].push_back(v);
  return out;
}

/// The mean of the running statistics over the micro-batches.
std::vector<float> running(const Unit& unit) {
  const auto all = running_by_micro_batch(unit);
  std::vector<float> out;
  for (std::size_t i = 0; i < all[0].size(); ++i) {
    double sum = 0;
    for (const auto& one : all) sum += one[i];
    out.push_back(static_cast<float>(sum / static_cast<double>(all.size())));
  }
  return out;
}

void expect_near(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << i;
}

TEST(BatchNorm, NamesItsParametersAndStatisticsAsPyTorchDoes) {
  const auto device = make_cpu_device(1);
  const BatchNormUnit unit(*device, channels);
  EXPECT_EQ(unit.layout().parameters()[0].name, "norm.weight");
  EXPECT_EQ(unit.layout().parameters()[1].name, "norm.bias");
  ASSERT_EQ(unit.statistics().size(), 2u);
  EXPECT_EQ(unit.statistics()[0].name, "norm.running_mean");
  EXPECT_EQ(unit.statistics()[1].name, "norm.running_var");
  EXPECT_EQ(running(unit), (std::vector<float>{0, 0, 0, 1, 1, 1}));
}

TEST(BatchNorm, RunsAfterTheMeanOverTheMicroBatchesOfAStep) {
  const auto device = make_cpu_device(1);
  BatchNormUnit unit(*device, channels);
  std::vector<double> expected{0, 0, 0, 1, 1, 1};
  for (std::int64_t step = 0; step < 2; ++step) {
    for (double& value : expected) value *= 0.9;
    for (std::int64_t m = 0; m < 2; ++m) {
      const auto x = normals(rows * channels, static_cast<std::uint64_t>(10 * step + m), 2);
      forward_of(unit, upload(*device, x, {rows, channels}),
                 {.step = step, .micro_batch = m, .micro_batches = 2, .keep = false});
      const auto statistics = statistics_of(x);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += 0.05 * statistics[i];
    }
  }
  expect_near(running(unit), expected);
}

/// The bits of a micro-batch's statistics must not depend on the rank that computes them, because
/// held-out losses are computed with the mean of the statistics of all micro-batches.
TEST(BatchNorm, EveryMicroBatchHasTheStatisticsThatItHasOnAnyRank) {
  const auto device = make_cpu_device(1);
  BatchNormUnit all(*device, channels), first(*device, channels), second(*device, channels);
  for (std::int64_t m = 0; m < 4; ++m) {
    const Tensor x = upload(*device, normals(rows * channels, static_cast<std::uint64_t>(m), 3),
                            {rows, channels});
    forward_of(all, x, {.micro_batch = m, .micro_batches = 4, .keep = false});
    forward_of(m < 2 ? first : second, x,
               {.micro_batch = m % 2, .micro_batches = 2, .keep = false});
  }
  auto of_both = running_by_micro_batch(first);
  for (auto& later : running_by_micro_batch(second)) of_both.push_back(later);
  EXPECT_EQ(running_by_micro_batch(all), of_both);
}

TEST(BatchNorm, CountsAMicroBatchOnce) {
  const auto device = make_cpu_device(1);
  BatchNormUnit unit(*device, channels);
  const Tensor x = upload(*device, normals(rows * channels, 1, 2), {rows, channels});
  const auto y = download(forward_of(unit, x, {.keep = false}));
  const auto once = running(unit);
  EXPECT_EQ(download(forward_of(unit, x, {.again = true})), y);
  EXPECT_EQ(running(unit), once);
}

TEST(BatchNorm, EvaluatesWithWhatItRemembers) {
  const auto device = make_cpu_device(1);
  BatchNormUnit unit(*device, channels);
  const auto x = normals(rows * channels, 1, 2);
  const Tensor in = upload(*device, x, {rows, channels});
  forward_of(unit, in, {.keep = false});
  const auto remembered = running(unit);
  const auto y = download(forward_of(unit, in, evaluation));
  EXPECT_EQ(running(unit), remembered);
  const auto p = download(unit.parameters);
  std::vector<double> expected;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % channels;
    expected.push_back((x[i] - double{remembered[c]}) / std::sqrt(remembered[channels + c] + 1e-5) *
                           p[c] +
                       p[channels + c]);
  }
  expect_near(y, expected);
}

TEST(BatchNorm, RefusesASingleRowInTraining) {
  const auto device = make_cpu_device(1);
  BatchNormUnit unit(*device, channels);
  const Tensor row = upload(*device, normals(channels, 1), {1, channels});
  EXPECT_THROW(forward_of(unit, row, {}), Error);
  EXPECT_NO_THROW(forward_of(unit, row, evaluation));
}

std::vector<float> dropped(Device& device, Unit& unit, const Pass& pass, std::int64_t samples) {
  return download(
      forward_of(unit, upload(device, std::vector<float>(samples * 5, 1.0f), {samples, 5}), pass));
}

TEST(Dropout, DependsOnThePlaceInTheGlobalBatchAlone) {
  const auto device = make_cpu_device(1);
  DropoutUnit unit(*device, "unit", 0.5);
  const auto whole = dropped(*device, unit, {.step = 3, .first_sample = 0, .seed = 9}, 8);
  std::vector<float> joined;
  for (std::int64_t part : {0, 1, 2, 3})
    for (float v :
         dropped(*device, unit,
                 {.step = 3, .micro_batch = part % 2, .first_sample = 2 * part, .seed = 9}, 2))
      joined.push_back(v);
  EXPECT_EQ(joined, whole);
  EXPECT_NE(std::count(whole.begin(), whole.end(), 0.0f), 0);
  EXPECT_NE(std::count(whole.begin(), whole.end(), 2.0f), 0);
}

/// A sum in bf16 would stay at 256: that plus 1 has no bf16 of its own.
TEST(PositionTable, SumsTheGradientsOfAllSamplesInFp32) {
  class Positions final : public testing::OwnRanges {
   public:
    explicit Positions(Device& device)
        : OwnRanges("unit", device), table(*this, "table", 2, 3, Init{Init::Kind::normal, 1}) {}
    Tensor forward(const Tensor& x, const Pass&, Saved&) override { return table.forward(x), x; }
    Tensor backward(const Tensor& dy, Saved& saved) override {
      return table.backward(dy, saved), dy;
    }
    PositionTable table;
  };
  constexpr std::int64_t samples = 512, count = 2 * 3;
  const auto device = make_cpu_device(1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Positions unit(*device);
    const Tensor range = device->tensor({count}, MemoryKind::gradient, dtype);
    unit.bind(range, range);
    const Tensor dy = device->tensor({samples * 2, 3}, MemoryKind::workspace, dtype);
    device->kernels().fill({.out = dy, .value = 1});
    MicroBatch own;
    unit.backward(dy, own.saved[0]);
    const Tensor sums = device->tensor({count}, MemoryKind::workspace);
    device->kernels().cast({.in = range, .out = sums});
    EXPECT_EQ(download(sums), std::vector<float>(count, samples)) << name_of(dtype);
  }
}

TEST(Dropout, DiffersBySeedStepUnitAndNotByAgain) {
  const auto device = make_cpu_device(1);
  DropoutUnit unit(*device, "unit", 0.5), other(*device, "other", 0.5);
  const auto base = dropped(*device, unit, {.step = 3, .seed = 9}, 8);
  EXPECT_EQ(dropped(*device, unit, {.step = 3, .again = true, .seed = 9}, 8), base);
  EXPECT_NE(dropped(*device, unit, {.step = 4, .seed = 9}, 8), base);
  EXPECT_NE(dropped(*device, unit, {.step = 3, .seed = 10}, 8), base);
  EXPECT_NE(dropped(*device, other, {.step = 3, .seed = 9}, 8), base);
}

TEST(Dropout, DropsNothingInEvaluationAndTheSameInBackward) {
  const auto device = make_cpu_device(1);
  DropoutUnit unit(*device, "unit", 0.25);
  const std::vector<float> ones(40, 1.0f);
  EXPECT_EQ(dropped(*device, unit, evaluation, 8), ones);
  MicroBatch own;
  const Pass pass{.step = 3, .seed = 9};
  const auto forward = download(unit.forward(upload(*device, ones, {8, 5}), pass, own.saved[0]));
  EXPECT_EQ(forward, dropped(*device, unit, pass, 8));
  EXPECT_EQ(download(unit.backward(upload(*device, ones, {8, 5}), own.saved[0])), forward);
  // The first backward took what forward had kept, so the second drops nothing.
  EXPECT_EQ(download(unit.backward(upload(*device, ones, {8, 5}), own.saved[0])), ones);
}

/// The expected numbers are those of Hugging Face's T5Attention._relative_position_bucket.
TEST(RelativeBias, HasTheBucketsOfHuggingFace) {
  const std::vector<std::int64_t> begins = {8, 12, 16, 23, 32, 46, 64, 91};
  RelativeBiasOptions options;
  for (std::int64_t away = 0; away <= 600; ++away) {
    std::int64_t expected = std::min<std::int64_t>(away, 7);
    for (const std::int64_t begin : begins) expected += away >= begin;
    EXPECT_EQ(bucket_of(-away, options), expected) << away;
    EXPECT_EQ(bucket_of(away, options), away == 0 ? 0 : 16 + expected) << away;
  }
  options.both_sides = false;
  const std::vector<std::int64_t> begins_of_earlier = {16, 19, 21, 24, 27, 31, 35, 40,
                                                       46, 52, 59, 67, 77, 87, 99, 113};
  for (std::int64_t away = 0; away <= 600; ++away) {
    std::int64_t expected = std::min<std::int64_t>(away, 15);
    for (const std::int64_t begin : begins_of_earlier) expected += away >= begin;
    EXPECT_EQ(bucket_of(-away, options), expected) << away;
    EXPECT_EQ(bucket_of(away, options), 0) << "later keys are not seen";
  }
}

}  // namespace
}  // namespace ringside
