// `bench compressors`: bits and errors of codes against closed forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/tools/bench/codes_bench.h"
#include "tests/support/complaint.h"

namespace ringside::tools::bench {
namespace {

using ::testing::HasSubstr;

CodesRow measured(const std::string& name, const CompressionOptions& options = {}) {
  return bench_codes({.names = {name},
                      .options = options,
                      .rows = 64,
                      .columns = 96,
                      .workers = 2,
                      .rounds = 3})
      .at(0);
}

TEST(CodesBench, CountsTheBitsOfAMessage) {
  EXPECT_DOUBLE_EQ(measured("fp16").bits, 16);
  EXPECT_DOUBLE_EQ(measured("int8").bits, 8 + 32.0 / 256);
  EXPECT_DOUBLE_EQ(measured("onebit").bits, 1 + 32.0 / (64 * 96));
  EXPECT_DOUBLE_EQ(measured("topk", {.ratio = 0.25}).bits, 16);
  EXPECT_DOUBLE_EQ(measured("randomk", {.ratio = 0.25}).bits, 8);
  EXPECT_DOUBLE_EQ(measured("powersgd", {.matrix_approximation_rank = 2}).bits,
                   32.0 * 2 * (64 + 96) / (64 * 96));
}

TEST(CodesBench, MeasuresErrorsAgainstTheExactSum) {
  EXPECT_LT(measured("fp16").error, 1e-3);
  EXPECT_LT(measured("topk", {.ratio = 1}).error, 1e-6);
  EXPECT_LT(measured("randomk", {.ratio = 1}).error, 1e-6);
  // Of a random half of the elements nothing is left.
  EXPECT_NEAR(measured("randomk", {.ratio = 0.5}).error, std::sqrt(0.5), 0.05);
  EXPECT_LT(
      measured("powersgd", {.matrix_approximation_rank = 64, .min_compression_rate = 0}).error,
      1e-4);
  EXPECT_LT(measured("signsgd").error, 0) << "votes are no estimate";
}

/// Without a memory the error of a sum of steps stays, as far as it is the same in all of them.
TEST(CodesBench, ShowsWhatAMemoryGivesBack) {
  for (const char* name : {"topk", "onebit"}) {
    const CodesRow with = measured(name, {.ratio = 0.25});
    const CodesRow without = measured(name, {.memory = ErrorMemory::none, .ratio = 0.25});
    EXPECT_DOUBLE_EQ(with.error, without.error) << name << ": nothing is remembered yet";
    EXPECT_LT(with.error_of_20, 0.5 * without.error_of_20) << name;
  }
}

TEST(CodesBench, RefusesUnknownNames) {
  EXPECT_THAT(testing::complaint([] { measured("topkk"); }),
              HasSubstr("unknown compressor 'topkk'; did you mean 'topk'?"));
}

}  // namespace
}  // namespace ringside::tools::bench
