// Compares the ledger with the memory that the operating system counts, on a model of more than
// 100 MB.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/some_text.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

class ResidentMemory : public ::testing::TestWithParam<std::pair<std::string, int>> {};

TEST_P(ResidentMemory, IsWithin15PercentOfTheLedger) {
  const auto& [scheme, world] = GetParam();
  testing::TemporaryFolder folder;
  folder.write("text.txt", testing::some_text(20'000));
  folder.write("big.toml", R"(
[model]
kind = "mlp"
layers = 3
width = 3584
context = 32
[data]
path = "text.txt"
[train]
steps = 2
warmup = 1
global_batch = 8
)");
  testing::Program program(RINGSIDE_PROGRAM,
                           {"train", "big.toml", "--scheme", scheme, "--world",
                            std::to_string(world), "--output", "out.json"},
                           folder.path());
  const auto ended = program.wait();
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto row = nlohmann::json::parse(std::ifstream(folder.path() / "out.json")).at("row");
  EXPECT_GT(4 * row.at("parameters").get<std::int64_t>(), 100'000'000);
  for (const auto& rank : row.at("ranks")) {
    const auto& memory = rank.at("memory");
    const double resident =
        memory.at("rss").get<double>() - memory.at("rss_of_peers").get<double>();
    EXPECT_NEAR(resident / memory.at("peak").get<double>(), 1, 0.15)
        << scheme << " rank " << rank.at("rank");
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, ResidentMemory,
                         ::testing::Values(std::pair<std::string, int>{"single", 1},
                                           std::pair<std::string, int>{"ddp", 2},
                                           std::pair<std::string, int>{"fsdp", 2},
                                           std::pair<std::string, int>{"dp", 2},
                                           std::pair<std::string, int>{"ps", 2}),
                         [](const auto& info) {
                           return info.param.first + "_world_" + std::to_string(info.param.second);
                         });

}  // namespace
}  // namespace ringside
