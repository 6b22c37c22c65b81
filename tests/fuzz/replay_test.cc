// Replays of inputs that fuzzers have found, in an ordinary build.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/targets.h"

namespace ringside::fuzz {
namespace {

using Target = void (*)(std::span<const std::byte>);

class Corpus : public ::testing::TestWithParam<std::pair<const char*, Target>> {};
INSTANTIATE_TEST_SUITE_P(Targets, Corpus,
                         ::testing::Values(std::pair{"decode", &decode},
                                           std::pair{"server", &server},
                                           std::pair{"master", &master},
                                           std::pair{"checkpoint", &checkpoint}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST_P(Corpus, IsTakenWithoutHarm) {
  const auto& [name, target] = GetParam();
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(RINGSIDE_CORPUS) / name)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    target(std::as_bytes(std::span(bytes)));
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace ringside::fuzz
