// Sums of whole buckets by a compressor of several rounds: which shards of them a rank keeps, and
// the bytes that it sends.
#include "peer/fsdp/whole_reduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "core/compress/codes.h"
#include "tests/peer/training.h"

namespace ringside::peer {
namespace {

using testing::Rank;
using testing::run_ranks;
using testing::Scene;
using testing::Training;

constexpr int ranks_that_sum = 3;
constexpr std::int64_t rank_of_matrices = 2;

CompressionOptions powersgd_of_rank_two(std::int64_t start_step = 0) {
  return {.compressor = "powersgd",
          .matrix_approximation_rank = rank_of_matrices,
          .min_compression_rate = 0,
          .start_step = start_step};
}

/// The gradient of a worker in a step, for the whole model.
float gradient_of_worker(int worker, std::int64_t step, std::int64_t element) {
  return static_cast<float>((element * 7 + worker * 5 + step * 3) % 23 - 11) / 8;
}

/// A rank's reduction of all buckets of a model in several steps.
class RankOfWholeSums {
 public:
  /// The rank keeps the shards of rank `place`.
  RankOfWholeSums(Scene& scene, Communicator& group, int place, double bucket_bytes,
                  const CompressionOptions& options)
      : scene_(scene),
        rank_(group.rank()),
        shards_(units_, place, group.size()),
        buckets_(units_, DType::f32, bucket_bytes),
        reduction_(scene.context, group, shards_, buckets_, options) {}

  const Shards& shards() const { return shards_; }
  const GradientBuckets& buckets() const { return buckets_; }

  /// Returns what the rank gets of the buckets, one after the other.
  std::vector<std::vector<float>> step(std::int64_t step) {
    Device& device = scene_.context.device;
    std::vector<std::vector<float>> out;
    std::vector<WorkPtr> works;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const GradientBucket& bucket = buckets_[b];
      const Tensor gradient = device.tensor({bucket.count}, MemoryKind::communication);
      for (std::int64_t i = 0; i < bucket.count; ++i)
        gradient.data<float>()[i] = gradient_of_worker(rank_, step, bucket.begin + i);
      works.push_back(reduction_.begin(b, gradient));
    }
    // All buckets are under way at once, as in a backward pass.
    for (int round = 1; round < reduction_.rounds(); ++round)
      for (std::size_t b = 0; b < buckets_.size(); ++b) {
        if (works[b]) works[b]->wait();
        works[b] = reduction_.go_on(b, round);
      }
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (works[b]) works[b]->wait();
      const Tensor part = device.tensor({buckets_.part_count(b, shards_)}, MemoryKind::gradient);
      device.kernels().fill({.out = part, .value = 99});
      reduction_.finish(b, part);
      const auto values = part.span<float>();
      out.emplace_back(values.begin(), values.end());
    }
    return out;
  }

 private:
  Scene& scene_;
  int rank_;
  const FsdpUnits units_{scene_.model, 0};
  Shards shards_;
  GradientBuckets buckets_;
  WholeReduction reduction_;
};

/// The same sums in loops, for the whole model as one bucket. In a step of the vector: one value
/// for each parameter.
std::vector<std::vector<float>> defined_whole(Scene& scene, const CompressionOptions& options,
                                              std::int64_t steps) {
  const std::int64_t count = scene.model.parameter_count();
  DefinedSum sum(scene.context, scene.model, {{.name = "all", .begin = 0, .count = count}}, options,
                 ranks_that_sum);
  std::vector<std::vector<float>> out;
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<Tensor> gradients;
    for (int w = 0; w < ranks_that_sum; ++w) {
      const Tensor& gradient =
          gradients.emplace_back(scene.context.device.tensor({count}, MemoryKind::gradient));
      for (std::int64_t i = 0; i < count; ++i)
        gradient.data<float>()[i] = gradient_of_worker(w, step, i);
    }
    const Tensor total = scene.context.device.tensor({count}, MemoryKind::gradient);
    sum.sum(0, gradients, total);
    const auto values = total.span<float>();
    out.emplace_back(values.begin(), values.end());
  }
  return out;
}

/// What a rank with these shards must get of a sum over the model: its parts of a bucket's units,
/// each with zeros for padding.
std::vector<float> part_of_whole(const std::vector<float>& total, const RankOfWholeSums& of,
                                 std::size_t b) {
  std::vector<float> out;
  const Shards& shards = of.shards();
  for (std::size_t u = of.buckets()[b].first; u <= of.buckets()[b].last; ++u) {
    const std::int64_t count = shards.padded_count(u) / shards.ranks();
    const std::int64_t begin = shards.fsdp_units()[u].begin + shards.begin_in_fsdp_unit(u);
    for (std::int64_t i = 0; i < count; ++i)
      out.push_back(i < shards.real_count(u) ? total[static_cast<std::size_t>(begin + i)] : 0);
  }
  return out;
}

TEST(WholeReductions, LeaveEveryRankTheShardsOfTheDefinedSum) {
  constexpr std::int64_t steps = 3;
  const Training training{.world = ranks_that_sum};
  for (const std::int64_t start_step : {0, 2})
    for (const double bucket_bytes : {0.0, 2000.0, 1e9})
      run_ranks(ranks_that_sum, [&](const Rank& r) {
        Scene s(r, training);
        const auto sums = defined_whole(s, powersgd_of_rank_two(start_step), steps);
        RankOfWholeSums reduction(s, r.comm, r.rank, bucket_bytes,
                                  powersgd_of_rank_two(start_step));
        for (std::int64_t step = 0; step < steps; ++step) {
          const auto parts = reduction.step(step);
          for (std::size_t b = 0; b < parts.size(); ++b)
            EXPECT_EQ(parts[b], part_of_whole(sums[static_cast<std::size_t>(step)], reduction, b))
                << "bucket " << b << ", step " << step;
        }
      });
}

/// topk, as a plug-in would bring it that does not say that it can be taken in parts. Rows are
/// added before the first is looked up.
constexpr std::string_view whole_topk = "topk_of_whole_buckets";
const bool added_whole_topk = [] {
  CompressorInfo row = compress::top_k_info();
  row.name = whole_topk;
  row.in_parts = false;
  add_compressor(row);
  return true;
}();

/// A rank sends (N-1) 8 k bytes for k elements of a tensor.
TEST(WholeReductions, GatherCodesThatDoNotAddUp) {
  ASSERT_TRUE(added_whole_topk);
  const CompressionOptions options{.compressor = std::string(whole_topk), .ratio = 0.25};
  const Training training{.world = ranks_that_sum};
  run_ranks(ranks_that_sum, [&](const Rank& r) {
    Scene s(r, training);
    const auto sums = defined_whole(s, options, 2);
    std::vector<Shape> tensors;
    for (const auto& unit : s.model.units)
      for (const auto& parameter : unit->layout().parameters()) tensors.push_back(parameter.shape);
    RankOfWholeSums reduction(s, r.comm, r.rank, 2000, options);
    for (std::int64_t step = 0; step < 2; ++step) {
      const Traffic before = r.comm.traffic();
      const auto parts = reduction.step(step);
      EXPECT_EQ(static_cast<double>(r.comm.traffic().sent - before.sent),
                compressed_bytes(options, tensors, ranks_that_sum));
      for (std::size_t b = 0; b < parts.size(); ++b)
        EXPECT_EQ(parts[b], part_of_whole(sums[static_cast<std::size_t>(step)], reduction, b));
    }
  });
}

/// That the comparison above can fail: a rank that keeps the next rank's shards.
TEST(WholeReductions, OfTheNextRanksShardsAreNotTheRanksOwn) {
  const Training training{.world = ranks_that_sum};
  run_ranks(ranks_that_sum, [&](const Rank& r) {
    Scene s(r, training);
    const auto sums = defined_whole(s, powersgd_of_rank_two(), 1);
    RankOfWholeSums right(s, r.comm, r.rank, 1e9, powersgd_of_rank_two());
    RankOfWholeSums wrong(s, r.comm, (r.rank + 1) % ranks_that_sum, 1e9, powersgd_of_rank_two());
    EXPECT_EQ(right.step(0)[0], part_of_whole(sums[0], right, 0));
    EXPECT_NE(wrong.step(0)[0], part_of_whole(sums[0], right, 0));
  });
}

/// In the mean over ranks 2 (N-1)/N 4 r (rows + columns) bytes for a matrix, in two all-reduces,
/// and 2 (N-1)/N 4 n for a vector. (Messages of a few elements are not divided evenly.)
TEST(WholeReductions, SendWhatMatricesOfLowRankTake) {
  const Training training{.world = ranks_that_sum};
  std::atomic<std::int64_t> sent{0}, values{0};  // of all ranks; in the messages of one
  run_ranks(ranks_that_sum, [&](const Rank& r) {
    Scene s(r, training);
    for (const auto& unit : s.model.units)
      for (const auto& parameter : unit->layout().parameters()) {
        const Shape& shape = parameter.shape;
        const std::int64_t columns = shape.count() / shape[0];
        const std::int64_t rank = std::min({rank_of_matrices, shape[0], columns});
        if (r.rank == 0) values += shape.rank() < 2 ? shape.count() : rank * (shape[0] + columns);
      }
    RankOfWholeSums reduction(s, r.comm, r.rank, 0, powersgd_of_rank_two());
    const Traffic before = r.comm.traffic();
    reduction.step(0);
    sent += r.comm.traffic().sent - before.sent;
  });
  EXPECT_EQ(sent, 2 * (ranks_that_sum - 1) * 4 * values);
}

}  // namespace
}  // namespace ringside::peer
