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
    small_gpt(128, 64, "steps = 60\nwarmup = 1\nglobal_batch = 48\n");
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
  struct Restart {
    int from = 0, made_again = 0;  // steps
  };
  static std::vector<Restart> restarts(const Ended& ended) {
    static const std::regex line(R"(restarted +from step (\d+) \((\d+) steps? made again,)");
    std::vector<Restart> out;
    for (auto at = std::sregex_iterator(ended.out.begin(), ended.out.end(), line);
         at != std::sregex_iterator(); ++at)
      out.push_back({std::stoi((*at)[1]), std::stoi((*at)[2])});
    return out;
  }
};

TEST_F(SimulatedFaultsOfARun, CostAsManyStepsAndRestartsAsThoseOfTheRealOne) {
  for (const std::string scheme : {"ddp", "ps"}) {
    const Ended real = struck(scheme, {"checkpoint.path=of-" + scheme});
    const Ended simulated = struck(scheme, {"device.kind=sim", "device.cluster=cluster.toml"});
    const auto predicted = restarts(simulated), happened = restarts(real);
    ASSERT_EQ(predicted.size(), scheme == "ps" ? 3u : 2u) << simulated.out;
    ASSERT_EQ(happened.size(), predicted.size()) << real.out;
    EXPECT_EQ(predicted[0].made_again, 13);
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      EXPECT_EQ(happened[i].from, predicted[i].from) << real.out;
      // A signal may come a step later, and workers may not all have done the step of another.
      EXPECT_NEAR(happened[i].made_again, predicted[i].made_again, 2) << real.out;
    }
    EXPECT_THAT(simulated.out, HasSubstr("was killed on purpose after step 33"));
    EXPECT_THAT(simulated.out, HasSubstr("figure         checkpoint stall"));
  }
}

}  // namespace
}  // namespace ringside
