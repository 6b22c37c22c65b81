// Whole runs with servers on devices whose memory the host does not share.
#include <gtest/gtest.h>

#include "tests/ps/makers.h"
#include "tests/support/staged_device.h"

namespace ringside::ps {
namespace {

using testing::StagedDevice;

struct StagedCase {
  int world, servers;
  Placement placement;
};
class StagedSchemesTest : public ::testing::TestWithParam<StagedCase> {
 protected:
  template <class Options>
  static void expect_the_bits_of_a_sequential_sum(const Options& options) {
    const StagedCase& c = GetParam();
    const bool colocated = c.placement == Placement::colocated;
    const RunPlan plan = testing::tiny_plan(c.world, c.servers, colocated, 2);
    // StagedDevice(3, 0): a copy to the host arrives at the third call of its ready(). Values are
    // not scrambled, because the CPU's kernels read them directly.
    const auto results =
        testing::run_ranks(plan, testing::maker(options), testing::server_of(options),
                           [] { return std::make_unique<StagedDevice>(3, 0); });
    testing::expect_run_of(testing::reference(c.world, 2), plan, results);
  }
};
std::string text(const ::testing::TestParamInfo<StagedCase>& info) {
  return std::to_string(info.param.world) + "Workers" + std::to_string(info.param.servers) +
         std::string(name_of(info.param.placement));
}

class StagedPsTest : public StagedSchemesTest {};
INSTANTIATE_TEST_SUITE_P(Ps, StagedPsTest,
                         ::testing::Values(StagedCase{1, 1, Placement::dedicated},
                                           StagedCase{2, 1, Placement::colocated},
                                           StagedCase{3, 2, Placement::dedicated},
                                           StagedCase{3, 3, Placement::colocated}),
                         text);
class StagedDpTest : public StagedSchemesTest {};
INSTANTIATE_TEST_SUITE_P(Dp, StagedDpTest,
                         ::testing::Values(StagedCase{1, 1, Placement::dedicated},
                                           StagedCase{2, 1, Placement::dedicated},
                                           StagedCase{3, 1, Placement::colocated}),
                         text);

TEST_P(StagedPsTest, EndsWithTheBitsOfASequentialSum) {
  expect_the_bits_of_a_sequential_sum(
      PsOptions{.servers = GetParam().servers, .placement = GetParam().placement});
}

TEST_P(StagedDpTest, EndsWithTheBitsOfASequentialSum) {
  expect_the_bits_of_a_sequential_sum(DpOptions{.placement = GetParam().placement});
}

}  // namespace
}  // namespace ringside::ps
