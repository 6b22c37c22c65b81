// Parameter servers that are killed: the run goes on from a checkpoint, and no push counts twice.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;
using ::testing::HasSubstr;

class LostServers : public ProgramTest {
 protected:
  LostServers() { small_gpt(16, 16, "steps = 2500\nglobal_batch = 3\n"); }

  static std::vector<std::string> command(std::vector<std::string> settings) {
    std::vector<std::string> out = {"train", "trial.toml", "--scheme", "ps", "--world", "3"};
    settings.emplace_back("scheme.ps.servers=1");
    for (const std::string& one : settings) out.insert(out.end(), {"--set", one});
    return out;
  }
  /// The line with the hash of the parameters.
  static std::string hash_in(const std::string& out) {
    const std::size_t begin = out.find("\nparameters ");
    return begin == std::string::npos ? "" : out.substr(begin, out.find('\n', begin + 1) - begin);
  }
  /// A run that is struck by the fault once it has checkpoints.
  Ended struck(const std::string& fault, std::vector<std::string> settings) const {
    settings.insert(
        settings.end(),
        {"checkpoint.path=of-" + fault.substr(5, 6), "checkpoint.every=100", "faults.restarts=1",
         "train.timeout_s=20", "faults.plan=[\"" + fault + " at step 1000\"]"});
    return run(command(settings));
  }
};

/// Ranks 0 to 2 are workers; the server is rank 3, or in the process of worker 0.
TEST_F(LostServers, AreReplacedAndTheRunEndsWithTheBitsOfTheUnbrokenOne) {
  const std::string unbroken = hash_in(run(command({})).out);
  ASSERT_NE(unbroken, "");
  const Ended dedicated = struck("kill server 0", {});
  EXPECT_EQ(dedicated.status, 0) << dedicated.err;
  EXPECT_THAT(dedicated.out, HasSubstr("rank 3 (server) was killed by signal 9"));
  EXPECT_EQ(hash_in(dedicated.out), unbroken) << dedicated.out;

  const Ended colocated = struck("kill worker 0", {"scheme.ps.placement=colocated"});
  EXPECT_EQ(colocated.status, 0) << colocated.err;
  EXPECT_THAT(colocated.out, HasSubstr("rank 0 (worker+server) was killed by signal 9"));
  EXPECT_THAT(colocated.out, HasSubstr("restarted      from step"));
  EXPECT_EQ(hash_in(colocated.out), unbroken) << colocated.out;
}

/// Where workers do not wait for each other, the history of the whole run is that of the parts that
/// count: the replay of all steps, from the first one, ends with the bits of the run.
TEST_F(LostServers, OfAspGoOnWithTheHistoryThatTheCheckpointHas) {
  small_gpt(16, 16, "steps = 300\nglobal_batch = 3\n");
  for (const char* killed : {"server 0", "worker 0"}) {
    // Where workers do equally many steps, worker 0 surely does the 110th.
    const std::string equal_steps = killed == std::string("worker 0") ? "true" : "false";
    std::vector<std::string> all = {"compare",  "trial.toml", "--schemes", "ps",
                                    "--worlds", "3",          "--quick"};
    for (const std::string& one :
         {std::string("scheme.ps.consistency=asp"), std::string("scheme.ps.servers=1"),
          "scheme.ps.equal_steps=" + equal_steps, "checkpoint.path=of-" + equal_steps,
          std::string("checkpoint.every=20"), std::string("faults.restarts=1"),
          fmt::format("faults.plan=[\"kill {} at step 110\"]", killed)})
      all.insert(all.end(), {"--set", one});
    const Ended ended = run(all);
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.err + ended.out, HasSubstr("restart 1 of 1 from step ")) << killed;
    EXPECT_THAT(ended.out, HasSubstr("bit-identical to its definition (replayed)")) << ended.out;
  }
}

}  // namespace
}  // namespace ringside
