// Compares simulated GPUs with figures that others published for real ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

/// Simulates the cases of experiments/published/validate/NAME.toml, with these settings, and
/// returns its cases.
nlohmann::json cases_of(const std::string& name, const std::vector<std::string>& settings = {}) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> arguments = {
      "validate", RINGSIDE_EXPERIMENTS "/published/validate/" + name + ".toml"};
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  const testing::Ended ended = testing::Program(RINGSIDE_PROGRAM, arguments, folder.path()).wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  std::ifstream in(folder.path() / "results" / name / "summary.json");
  return nlohmann::json::parse(in).at("cases");
}

double deviation(const nlohmann::json& one) {
  return one.at("published").at(0).at("deviation").get<double>();
}

/// How far simulated figures may be from the published ones.
struct Limits {
  const char* experiment;
  double of_one, of_more;  // of one GPU, of several
};

class Published : public ::testing::TestWithParam<Limits> {};

TEST_P(Published, FiguresComeOut) {
  int published = 0;
  for (const auto& one : cases_of(GetParam().experiment)) {
    if (one.at("published").empty()) continue;
    ++published;
    EXPECT_LT(std::abs(deviation(one)),
              one.at("world") == 1 ? GetParam().of_one : GetParam().of_more)
        << one.at("label") << " at world " << one.at("world") << ": " << deviation(one);
  }
  EXPECT_GT(published, 0);
}

/// Steps of models whose operations were timed on an H100, and from which its efficiencies follow:
/// in bf16 through fused attention, in TF32 and fp32 through the plain one.
TEST(MeasuredSteps, OfAnH100ComeOut) {
  int seen = 0;
  for (const char* experiment : {"h100-gpt2", "h100-resnet-50", "h100-bert-large"})
    for (const auto& one : cases_of(experiment)) {
      const std::string label = one.at("label");
      EXPECT_LT(std::abs(deviation(one)), label.ends_with("bf16") ? 0.05 : 0.1)
          << label << ": " << deviation(one);
      ++seen;
    }
  EXPECT_EQ(seen, 5);
}

// What remains: AMP on 32 GPUs, whose scaling steps wait for the host; TensorFlow's servers, fewer
// than machines; Llama 13B, which fills its GPUs; and BERT's gain by overlap, whose batch was not
// published.
INSTANTIATE_TEST_SUITE_P(
    Of, Published,
    ::testing::Values(Limits{"resnet-50", 0.05, 0.07}, Limits{"bert-large-128", 0.03, 0.03},
                      Limits{"bert-large-512", 0.1, 0.08}, Limits{"pytorch-ddp", 0.035, 0.03},
                      Limits{"byteps-bounds", 0, 0.03}, Limits{"resnet-50-32-gpus", 0.01, 0.09},
                      Limits{"tensorflow-servers", 0.01, 0.17}, Limits{"shaped-links", 0.01, 0.07},
                      Limits{"gpt2-two-gpus", 0, 0.1}, Limits{"llama-fsdp", 0, 0.14},
                      Limits{"ddp-overlap", 0, 0.11}),
    [](const auto& info) {
      std::string name = info.param.experiment;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(PublishedDataParallel, LiesBetweenDdpWithPeerToPeerAndDdpWithout) {
  std::map<std::string, double> step_ms;
  for (const auto& one : cases_of("gpt2-two-gpus"))
    step_ms[one.at("label")] = one.at("step_ms").get<double>();
  EXPECT_LT(step_ms.at("DDP over NVLink"), step_ms.at("DP over NVLink"));
  EXPECT_LT(step_ms.at("DP over NVLink"), step_ms.at("DDP without peer-to-peer"));
}

/// The table's last lines say how far the all-reduces of nccl-tests.toml are off.
TEST(PublishedCollectives, ComeOut) {
  const testing::TemporaryFolder folder;
  const testing::Ended ended =
      testing::Program(RINGSIDE_PROGRAM,
                       {"validate", RINGSIDE_EXPERIMENTS "/published/validate/nccl-tests.toml"},
                       folder.path())
          .wait();
  ASSERT_EQ(ended.status, 0) << ended.err;
  std::smatch found;
  const std::regex line("15 predicted: median ([-+0-9.]+)%, largest ([-+0-9.]+)%");
  ASSERT_TRUE(std::regex_search(ended.out, found, line)) << ended.out;
  EXPECT_LT(std::abs(std::stod(found[1])), 5);
  EXPECT_LT(std::abs(std::stod(found[2])), 15);
}

/// Shows why bert-large-512 has sequences of the mean length instead of 512 tokens: with sequences
/// of full length, the simulated V100 stays far below the published figure.
TEST(PublishedSequences, Of512TokensAreNotWhatWasMeasured) {
  int found = 0;
  for (const auto& one : cases_of("bert-large-512", {"model.context=512"})) {
    if (one.at("label") != "V100-32, FP32") continue;
    ++found;
    EXPECT_LT(deviation(one), -0.3);
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace ringside
