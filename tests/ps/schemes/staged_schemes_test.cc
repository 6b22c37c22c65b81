// Whole runs with servers on devices whose memory the host does not share.
#include <gtest/gtest.h>

#include "ps/schemes/dp.h"
#include "ps/schemes/ps.h"
#include "tests/ps/run.h"
#include "tests/support/staged_device.h"

namespace ringside::ps {
namespace {

using testing::RankResult;
using testing::StagedDevice;

struct Case {
  int world, servers;
  std::string placement;
};
class StagedSchemesTest : public ::testing::TestWithParam<Case> {
 protected:
  template <class MakeScheme, class ServeScheme>
  static void expect_the_bits_of_a_sequential_sum(MakeScheme make, ServeScheme serve) {
    const Case& c = GetParam();
    const bool beside = c.placement == "beside";
    const RunPlan plan = testing::tiny_plan(c.world, c.servers, beside, 2);
    // Values as they are, for the kernels of the CPU; copies that take a while.
    const auto results =
        testing::run_ranks(plan, make, serve, [] { return std::make_unique<StagedDevice>(3, 0); });
    testing::expect_run_of(testing::reference(c.world, 2), plan, results);
  }
};
std::string text(const ::testing::TestParamInfo<Case>& info) {
  return std::to_string(info.param.world) + "Workers" + std::to_string(info.param.servers) +
         info.param.placement;
}

class StagedPsTest : public StagedSchemesTest {};
INSTANTIATE_TEST_SUITE_P(Ps, StagedPsTest,
                         ::testing::Values(Case{1, 1, "dedicated"}, Case{2, 1, "beside"},
                                           Case{3, 2, "dedicated"}, Case{3, 3, "beside"}),
                         text);
class StagedDpTest : public StagedSchemesTest {};
INSTANTIATE_TEST_SUITE_P(Dp, StagedDpTest,
                         ::testing::Values(Case{1, 1, "dedicated"}, Case{2, 1, "dedicated"},
                                           Case{3, 1, "beside"}),
                         text);

TEST_P(StagedPsTest, EndsWithTheBitsOfASequentialSum) {
  const PsOptions options{.servers = GetParam().servers, .placement = GetParam().placement};
  expect_the_bits_of_a_sequential_sum(
      [&](const RankContext& context) { return make_ps(context, options); },
      [&](const RankContext& context, Model& model, const Loader& loader) {
        return serve_ps(context, options, model, loader);
      });
}

TEST_P(StagedDpTest, EndsWithTheBitsOfASequentialSum) {
  const DpOptions options{.placement = GetParam().placement};
  expect_the_bits_of_a_sequential_sum(
      [&](const RankContext& context) { return make_dp(context, options); },
      [&](const RankContext& context, Model& model, const Loader& loader) {
        return serve_dp(context, options, model, loader);
      });
}

}  // namespace
}  // namespace ringside::ps
