// Runs that go on from the checkpoint of another algorithm: what the two share is taken over, and
// the run says what is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "experiments/runner/report/report.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/diloco.h"
#include "peer/schemes/local_sgd.h"
#include "peer/schemes/sgp.h"
#include "tests/schemes/checkpointed_runs.h"
#include "tests/schemes/conformance.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using testing::complaint;
using testing::going_on;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run;
using testing::saving;
using testing::TemporaryFolder;
using testing::tiny;
using testing::wrong_losses;
using testing::wrong_parameters;

RunPlan planned(const std::string& scheme, const Options& options, int world = 3,
                ExperimentConfig config = tiny("mlp")) {
  config.scheme_options[scheme] = options;
  return plan_training(config, scheme, world);
}

std::string note_of(const RunRecord& row) {
  std::string note;
  for (const RankRecord& rank : row.ranks)
    if (rank.checkpoints) note = rank.checkpoints->note;
  for (const RankRecord& rank : row.ranks)
    EXPECT_TRUE(rank.checkpoints && rank.checkpoints->note == note);
  return note;
}

/// DiLoCo's outer parameters begin as the model of the checkpoint, not as initial values: with
/// these options its run is that of ddp.
TEST(CheckpointsOfOtherAlgorithms, OfOneModelAreTakenOverByReplicas) {
  auto config = tiny("mlp");
  config.optimizer.kind = "sgd";
  const RunPlan ddp = planned("ddp", find_scheme("ddp").defaults, 3, config);
  const TemporaryFolder folder;
  const RunRecord unbroken = saving(ddp, folder);
  const peer::DilocoOptions own{.sync_every = 1, .outer_lr = 1, .outer_momentum = 0};
  const RunRecord diloco = going_on(planned("diloco", own, 3, config), folder, 2);
  EXPECT_THAT(wrong_losses(diloco, unbroken, 1e-5), IsEmpty());
  EXPECT_EQ(note_of(diloco), "of its state, outer_parameters begins anew");
  EXPECT_THAT(row_text(diloco), HasSubstr("went on        from the checkpoint after step 2: of its "
                                          "state, outer_parameters begins anew"));
  const RunRecord sgp = going_on(
      planned("sgp", peer::SgpOptions{.graph = peer::Graph::complete}, 3, config), folder, 2);
  EXPECT_THAT(wrong_losses(sgp, unbroken, 1e-5), IsEmpty());
  EXPECT_EQ(note_of(sgp), "of its state, push_sum_weight, push_sum_x, push_sum_z begin anew");
}

TEST(CheckpointsOfOtherAlgorithms, WithoutErrorsBeginWithNone) {
  const peer::DdpOptions lossless{.compression = {.compressor = "topk", .ratio = 1}};
  const RunPlan plain = planned("ddp", find_scheme("ddp").defaults),
                coded = planned("ddp", lossless);
  const RunRecord unbroken = run(plain);
  {
    const TemporaryFolder folder;
    saving(plain, folder);
    const RunRecord row = going_on(coded, folder, 3);
    EXPECT_THAT(wrong_parameters(row, unbroken), IsEmpty()) << "it loses nothing";
    EXPECT_EQ(note_of(row), "of its state, compressor_steps, error_memory begin anew");
  }
  const TemporaryFolder folder;
  saving(coded, folder);
  const RunRecord row = going_on(plain, folder, 3);
  EXPECT_THAT(wrong_parameters(row, unbroken), IsEmpty());
  EXPECT_EQ(note_of(row), "of its state, compressor_steps, error_memory are not used");
}

/// Replicas of their own are one model only where they are equal.
TEST(CheckpointsOfOtherAlgorithms, OfReplicasAreTakenOverWhereThoseAreEqual) {
  const RunPlan local = planned("local_sgd", peer::LocalSgdOptions{.sync_every = 2});
  const TemporaryFolder folder;
  saving(local, folder);
  const RunPlan ddp = planned("ddp", find_scheme("ddp").defaults);
  const auto refused = AllOf(HasSubstr("its 3 workers had replicas of their own, which differ"),
                             HasSubstr("go on under a scheme of as many replicas"));
  EXPECT_THAT(complaint([&] { going_on(ddp, folder, 3); }),
              AllOf(refused, HasSubstr("scheme ddp at world 3")));
  EXPECT_THAT(complaint([&] {
                going_on(planned("local_sgd", peer::LocalSgdOptions{.sync_every = 2}, 2), folder,
                         3);
              }),
              AllOf(refused, HasSubstr("scheme local_sgd at world 2")));
  EXPECT_THAT(complaint([&] { going_on(planned("diloco", peer::DilocoOptions{}), folder, 3); }),
              refused)
      << "what would its outer parameters be?";
  const RunRecord at_end = going_on(ddp, folder, 5);
  EXPECT_EQ(at_end.parameter_hashes[0], run(local).parameter_hashes[0]);
  EXPECT_EQ(note_of(going_on(ddp, folder, 4)),
            "of its state, first_moment, second_moment are not used; first_moment, second_moment "
            "begin anew");
  const RunRecord other = going_on(planned("dpsgd", find_scheme("dpsgd").defaults), folder, 3);
  EXPECT_EQ(note_of(other), "") << "each worker has its replica and its moments";
}

/// Messages that are on their way mean nothing to another rule.
TEST(CheckpointsOfOtherAlgorithms, LeaveMessagesBehind) {
  const TemporaryFolder folder;
  saving(planned("diloco", peer::DilocoOptions{.sync_every = 3, .fragment_sync_delay = 2}), folder);
  EXPECT_EQ(
      note_of(going_on(planned("local_sgd", find_scheme("local_sgd").defaults), folder, 4)),
      "of its state, given_after, message_sum, outer_momentum, outer_parameters are not used");
  const RunRecord other = going_on(
      planned("diloco", peer::DilocoOptions{.sync_every = 4, .fragment_sync_delay = 3}), folder, 4);
  EXPECT_EQ(note_of(other),
            "of its state, given_after, message_sum are not used; given_after begins anew");
}

}  // namespace
}  // namespace ringside::runner
