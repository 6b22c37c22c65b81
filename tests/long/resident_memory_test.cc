// The ledger against the memory that the operating system counts, on models of gigabytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

struct Trained {
  const char* name;
  const char* preset;
  const char* data;
  int samples;  // of a step
  std::vector<std::string> settings{};
};

class ResidentMemoryOfModels : public ::testing::TestWithParam<Trained> {
 protected:
  struct Bytes {
    double ledger, resident;
  };
  static Bytes trained(const Trained& one) {
    const testing::TemporaryFolder folder;
    folder.write("model.toml", fmt::format(R"(
[model]
preset = "{}"
[data]
kind = "{}"
[train]
steps = 3
warmup = 1
batch_per_rank = {}
)",
                                           one.preset, one.data, one.samples));
    std::vector<std::string> arguments = {"train",  "model.toml", "--scheme",
                                          "single", "--world",    "1"};
    for (const std::string& setting : one.settings)
      arguments.insert(arguments.end(), {"--set", setting});
    arguments.insert(arguments.end(), {"--output", "out.json"});
    const auto ended = testing::Program(RINGSIDE_PROGRAM, arguments, folder.path()).wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    const auto memory = nlohmann::json::parse(std::ifstream(folder.path() / "out.json"))
                            .at("row")
                            .at("ranks")
                            .at(0)
                            .at("memory");
    return {memory.at("peak").get<double>(), memory.at("rss").get<double>()};
  }
};

/// The program itself, which a training of almost nothing shows, is not the model's.
TEST_P(ResidentMemoryOfModels, IsWithin2PercentOfTheLedgerBesideTheProgram) {
  const Bytes nothing = trained({"",
                                 "gpt2",
                                 "synthetic",
                                 1,
                                 {"model.layers=1", "model.width=12", "model.heads=1",
                                  "model.vocabulary=256", "model.context=8"}});
  const double program = nothing.resident - nothing.ledger;
  const Bytes bytes = trained(GetParam());
  EXPECT_GT(bytes.ledger, 1e9);
  const double off = (bytes.resident - program) / bytes.ledger - 1;
  std::printf("%s: ledger %.0f MB, resident %.0f MB, of which the program %.0f MB: %+.2f%%\n",
              GetParam().name, bytes.ledger / 1e6, bytes.resident / 1e6, program / 1e6, 100 * off);
  EXPECT_LT(std::abs(off), 0.02);
}

INSTANTIATE_TEST_SUITE_P(
    Of, ResidentMemoryOfModels,
    ::testing::Values(
        Trained{"gpt", "gpt2", "synthetic", 2, {"model.context=256"}},
        Trained{
            "bert", "bert-base", "synthetic-masked", 2, {"model.context=256", "model.masked=38"}},
        Trained{"llama",
                "llama3.2-1b",
                "synthetic",
                2,
                {"model.layers=2", "model.vocabulary=16000", "model.context=256"}},
        Trained{"resnet", "resnet-50", "synthetic-images", 16},
        Trained{"vgg", "vgg-16", "synthetic-images", 4}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ringside
