// The same faults under the real and under the simulated program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;
using ::testing::HasSubstr;

class SimulatedFaultsOfARun : public ProgramTest {
 protected:
  /// Steps of some 50 ms: a signal strikes within one, and a checkpoint is whole after one.
  SimulatedFaultsOfARun() {
    small_gpt(192, 64, "steps = 60\nwarmup = 1\nglobal_batch = 48\n");
    folder_.write("cluster.toml", std::string("include = \"") + RINGSIDE_CLUSTERS +
                                      "/dgx-h100.toml\"\n[failures]\nrestart_s = 1\n");
  }

  Ended struck(const std::string& scheme, std::vector<std::string> settings) const {
    std::vector<std::string> command = {"train", "trial.toml", "--scheme", scheme, "--world", "3"};
    settings.insert(settings.end(),
                    {"checkpoint.every=20", "faults.restarts=3",
                     "faults.plan=[\"kill worker 1 at step 33\", \"kill worker 0 at step 49\", "
                     "\"kill server 0 at step 57\"]"});
    for (const std::string& one : settings) command.insert(command.end(), {"--set", one});
    Ended ended = run(command);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended;
  }
  /// The restarts: "step 20 (13 steps made again".
  static std::vector<std::string> restarts(const Ended& ended) {
    static const std::regex line(R"(restarted +from ([^,]*),)");
    std::vector<std::string> out;
    for (auto at = std::sregex_iterator(ended.out.begin(), ended.out.end(), line);
         at != std::sregex_iterator(); ++at)
      out.push_back((*at)[1]);
    return out;
  }
};

TEST_F(SimulatedFaultsOfARun, CostAsManyStepsAndRestartsAsThoseOfTheRealOne) {
  for (const std::string scheme : {"ddp", "ps"}) {
    const Ended real = struck(scheme, {"checkpoint.path=of-" + scheme});
    const Ended simulated = struck(scheme, {"device.kind=sim", "device.cluster=cluster.toml"});
    ASSERT_EQ(restarts(simulated).size(), scheme == "ps" ? 3u : 2u) << simulated.out;
    EXPECT_EQ(restarts(simulated)[0], "step 20 (13 steps made again");
    EXPECT_EQ(restarts(simulated), restarts(real)) << simulated.out << real.out;
    EXPECT_THAT(simulated.out, HasSubstr("was killed on purpose after step 33"));
    EXPECT_THAT(simulated.out, HasSubstr("figure         checkpoint stall"));
  }
}

}  // namespace
}  // namespace ringside
