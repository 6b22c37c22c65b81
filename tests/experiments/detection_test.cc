// What a run notices within itself: a worker that hangs, differs from the others, or has a loss
// that is not finite, and a server whose connections are cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::ContainsRegex;
using testing::Ended;
using ::testing::HasSubstr;
using ::testing::Not;

class Detection : public ProgramTest {
 protected:
  Detection() { small_gpt(16, 16, "steps = 60\nwarmup = 1\nglobal_batch = 6\n"); }

  Ended train(const std::string& scheme, const std::vector<std::string>& settings,
              const std::string& world = "3") const {
    std::vector<std::string> words = {"train", "trial.toml", "--scheme", scheme, "--world", world};
    for (const std::string& one : settings) words.insert(words.end(), {"--set", one});
    return run(words);
  }
  /// The hash of the parameters at the end.
  static std::string hash_in(const Ended& ended) {
    const std::string mark = "\nparameters     ";
    const std::size_t at = ended.out.find(mark);
    return at == std::string::npos ? ended.err : ended.out.substr(at + mark.size(), 32);
  }
};

/// Rank 2 is named, and the run goes on from the last checkpoint before the bit flipped: the one
/// that was due in between was not written.
TEST_F(Detection, AFlippedBitIsFoundBeforeACheckpointHasIt) {
  const std::string whole = hash_in(train("ddp", {}));
  const Ended ended =
      train("ddp", {"faults.plan=[\"flip worker 2 at step 30\"]", "faults.compare_every=25",
                    "faults.restarts=1", "checkpoint.path=kept", "checkpoint.every=8",
                    "checkpoint.asynchronous=false"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out,
              ContainsRegex("restarted +from step 24 .*: the parameters of rank 2 differ "
                            "from the others' after step 32, first in unit embedding"));
  EXPECT_EQ(hash_in(ended), whole);
  const Ended two =
      train("ddp", {"faults.plan=[\"flip worker 1 at step 30\"]", "faults.compare_every=25"}, "2");
  EXPECT_NE(two.status, 0);
  EXPECT_THAT(two.err,
              HasSubstr("the parameters of ranks 0, 1 differ from each other after step 50"));
}

/// Nobody is named where nothing is wrong, and nothing changes.
TEST_F(Detection, ParametersThatAreEqualAreOnlyCompared) {
  for (const std::string scheme : {"ddp", "zero1", "ps", "dp"}) {
    const Ended ended = train(scheme, {"faults.compare_every=7"});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(hash_in(ended), hash_in(train(scheme, {}))) << scheme;
  }
  for (const auto& [scheme, why] : std::vector<std::pair<std::string, std::string>>{
           {"fsdp", "hold a shard of the parameters each"},
           {"local_sgd", "differ from each other after a step"}}) {
    const Ended refused = train(scheme, {"faults.compare_every=7"});
    EXPECT_NE(refused.status, 0);
    EXPECT_THAT(refused.err, HasSubstr(why));
  }
}

TEST_F(Detection, AThreadThatHangsIsNamedWhileItsProcessLives) {
  for (const std::string scheme : {"ddp", "ps"}) {
    const Ended ended =
        train(scheme, {"faults.plan=[\"hang worker 1 at step 20\"]", "train.timeout_s=9"});
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(
        ended.err,
        ContainsRegex("rank 1 .worker. stands still for [0-9.]+ s after step 20, and others "
                      "wait for it, at most train.timeout_s = 9 s"));
    EXPECT_THAT(ended.err, Not(HasSubstr("rank 0 (worker) stands still")));
    EXPECT_THAT(ended.err, Not(HasSubstr("rank 2 (worker) stands still")));
    EXPECT_THAT(ended.err, ContainsRegex(scheme == "ddp" ? "rank 1 of 3 did not begin operation"
                                                         : "worker 1 has been silent for 9 s"));
  }
}

TEST_F(Detection, AServerThatHangsIsNamedWhileItsProcessLives) {
  const Ended ended = train("ps", {"faults.plan=[\"hang server 0 at step 20\"]",
                                   "scheme.ps.servers=1", "train.timeout_s=9"});
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.err, ContainsRegex("rank 3 .server. stands still for [0-9.]+ s, and others "
                                       "wait for it, at most train.timeout_s = 9 s"));
  EXPECT_THAT(ended.err, Not(HasSubstr("(worker) stands still")));
}

TEST_F(Detection, AWorkerThatHangsOnceIsReplaced) {
  const Ended ended =
      train("fsdp", {"faults.plan=[\"hang worker 1 at step 20\"]", "train.timeout_s=2",
                     "faults.restarts=1", "checkpoint.path=kept", "checkpoint.every=8"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(hash_in(ended), hash_in(train("fsdp", {})));
}

TEST_F(Detection, TooManyStepsThatAreNotFiniteNameTheRankAndTheUnit) {
  for (const std::string scheme : {"ddp", "fsdp", "ps", "dp"}) {
    const Ended ended = train(
        scheme, {"train.skip_not_finite=1",
                 "faults.plan=[\"poison worker 1 at step 9\", \"poison worker 1 at step 10\"]"});
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(ended.err, HasSubstr("rank 1 (worker): the loss is nan at step 11: the output of "
                                     "unit head is the first that is not finite, and the 1 step "
                                     "before it was skipped"));
  }
  const Ended refused = train("local_sgd", {"train.skip_not_finite=1"});
  EXPECT_THAT(refused.err, HasSubstr("train.skip_not_finite = 1: with scheme local_sgd workers do "
                                     "not skip the same steps"));
}

/// What was skipped before a checkpoint counts after it too.
TEST_F(Detection, ARunGoesOnAmidSkippedSteps) {
  const std::vector<std::string> poisons = {"train.skip_not_finite=3",
                                            "faults.plan=[\"poison worker 1 at step 19\", \"poison "
                                            "worker 0 at step 20\", \"kill worker 2 "
                                            "at step 25\"]",
                                            "checkpoint.path=kept", "checkpoint.every=20",
                                            "faults.restarts=1"};
  const Ended ended = train("ddp", poisons);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("skipped        2 steps"));
  std::vector<std::string> unbroken = {
      poisons[0],
      "faults.plan=[\"poison worker 1 at step 19\", \"poison worker "
      "0 at step 20\"]"};
  EXPECT_EQ(hash_in(ended), hash_in(train("ddp", unbroken)));
  unbroken[0] = "train.skip_not_finite=1";
  EXPECT_THAT(train("ddp", unbroken).err, HasSubstr("at step 21"));
  const Ended again =
      train("ddp", {unbroken[0], unbroken[1], "checkpoint.path=other", "checkpoint.every=20",
                    "checkpoint.asynchronous=false", "faults.restarts=4"});
  EXPECT_NE(again.status, 0);
  EXPECT_THAT(again.err, ContainsRegex("restart 2 of 4 from step 20: rank 0 .* at step 21"));
  EXPECT_THAT(again.err, HasSubstr("for the second time"));
}

TEST_F(Detection, AServerThatIsCutOffIsReplaced) {
  const std::string whole = hash_in(train("ps", {"scheme.ps.servers=2"}));
  for (const std::string transport : {"shm", "tcp"}) {
    const Ended ended =
        train("ps", {"scheme.ps.servers=2", "scheme.ps.transport=" + transport,
                     "faults.plan=[\"cut server 1 at step 30\"]", "faults.restarts=1",
                     "checkpoint.path=" + transport, "checkpoint.every=8"});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, ContainsRegex("restarted +from step .*(server 1|rank 4 .server.)"))
        << "whoever notices first";
    EXPECT_EQ(hash_in(ended), whole) << transport;
  }
}

}  // namespace
}  // namespace ringside
