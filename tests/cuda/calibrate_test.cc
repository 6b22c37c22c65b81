// A GPU that is calibrated, and runs on it that are predicted. The program finds the double's
// modules in its folder.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/runner/config/cluster_file.h"
#include "tests/cuda/fixture.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using ::testing::HasSubstr;

class CalibratedGpu : public OnGpu {
 protected:
  testing::Ended run(const std::vector<std::string>& arguments) const {
    return testing::Program(RINGSIDE_ON_HOST, arguments, folder_.path()).wait();
  }

  /// Milliseconds of a step of trial.toml as `compare` predicts it when this stands in cuda.toml.
  double predicted_step(const sim::ClusterSpec& machine) const {
    folder_.write("results/cuda.toml", cluster_text(machine, "Of a test."));
    const testing::Ended compared = run({"compare", "trial.toml", "--set", "device.kind=cuda"});
    EXPECT_EQ(compared.status, 0) << compared.err;
    const nlohmann::json row = nlohmann::json::parse(folder_.read("results/trial/rows.jsonl"));
    return row.at("predicted").at("step_ms");
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CalibratedGpu, PredictsTheStepsOfTheModelsThatWereTimed) {
  folder_.write("trial.toml",
                "[model]\nkind = \"mlp\"\nlayers = 1\nwidth = 16\ncontext = 4\n"
                "[data]\nkind = \"synthetic\"\n"
                "[train]\nsteps = 6\nwarmup = 2\nglobal_batch = 4\n"
                "[compare]\nschemes = [\"single\"]\nworlds = [1]\nrepeats = 1\n"
                "attempts = 1\n");
  const testing::Ended measured = run({"calibrate", "trial.toml", "--device", "cuda", "--cluster",
                                       RINGSIDE_CLUSTERS "/dgx-h100.toml"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  EXPECT_THAT(measured.out, HasSubstr("/results/cuda.toml"));
  const sim::ClusterSpec machine = read_cluster(folder_.path() / "results" / "cuda.toml");
  const sim::ClusterSpec around = read_cluster(RINGSIDE_CLUSTERS "/dgx-h100.toml");
  EXPECT_EQ(machine.name, cuda::look_at_machine().gpus.front().name);
  EXPECT_EQ(machine.devices, around.devices);
  EXPECT_EQ(machine.device.tflops, around.device.tflops);
  EXPECT_EQ(machine.peer, around.peer);
  EXPECT_FALSE(machine.timed.empty());
  EXPECT_NE(machine.device.efficiency.at("fp32").at("linear"),
            around.device.efficiency.at("fp32").at("linear"));
  EXPECT_EQ(machine.device.efficiency.at("bf16"), around.device.efficiency.at("bf16"));
  for (const sim::Assumed& one : machine.assumed)
    for (const std::string& key : one.keys) EXPECT_NE(key, "efficiency.fp32.linear") << one.part;

  // The double's kernels are threads of a busy host, so no measured step judges the prediction: one
  // of operations that take ten times as long does, whatever else a step has.
  const double predicted = predicted_step(machine);
  EXPECT_GT(predicted, 0);
  sim::ClusterSpec slower = machine;
  for (sim::TimedOperation& one : slower.timed) one.us *= 10;
  EXPECT_NEAR(predicted_step(slower) / predicted, 10, 1);
}

TEST_F(CalibratedGpu, NeedsModelsAndAGpuThatIsThere) {
  EXPECT_THAT(run({"calibrate", "--device", "cuda"}).err,
              HasSubstr("--device cuda: name the experiment files whose models are to be timed"));
  EXPECT_THAT(run({"calibrate", "--device", "sim", "trial.toml"}).err,
              HasSubstr("--device sim: such devices cannot be measured"));
  folder_.write("other.toml", "[cluster]\n");
  EXPECT_THAT(run({"calibrate", "--cluster", "other.toml"}).err,
              HasSubstr("--cluster is for --from and for --device cuda"));
}

}  // namespace
}  // namespace ringside::runner
