// The experiment files that come with the program can be read and planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "experiments/runner/config/config.h"
#include "experiments/runner/config/published_tables.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/tools/advise/published_choices.h"
#include "experiments/tools/bench/published_collectives.h"
#include "tests/data/data_files.h"
#include "tests/support/some_text.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

namespace fs = std::filesystem;

/// experiments/*.toml and those of its folders of experiments, in order, without the index of
/// published tables.
std::vector<fs::path> experiment_files() {
  std::vector<fs::path> files;
  const fs::path folder = fs::path(RINGSIDE_CLUSTERS).parent_path();
  for (const fs::path& one : {folder, folder / "measured", folder / "simulated", folder / "machine",
                              folder / "published/validate", folder / "published/reproduce"})
    for (const auto& entry : fs::directory_iterator(one))
      if (entry.path().extension() == ".toml" && entry.path().filename() != "tables.toml")
        files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class ExperimentFiles : public ::testing::TestWithParam<fs::path> {
 protected:
  /// Makes a small stand-in for the data of the kind, and returns the override that names it; none
  /// for data that the program makes itself.
  std::vector<std::string> stand_in(const std::string& kind) const {
    if (kind.starts_with("synthetic")) return {};
    if (kind == "text")
      return {"data.path=" + folder_.write("text.txt", testing::some_text(100'000))};
    if (kind == "idx") {
      folder_.write("images-idx3-ubyte",
                    testing::idx(0x803, {100, 28, 28}, std::string(100 * 28 * 28, 'x')));
      folder_.write("labels-idx1-ubyte", testing::idx(0x801, {100}, std::string(100, '\1')));
      return {"data.path=" + folder_.path().string()};
    }
    ADD_FAILURE() << "this test has no data of kind " << kind;
    return {};
  }
  testing::TemporaryFolder folder_;
};

TEST_P(ExperimentFiles, CanBeReadAndPlanned) {
  if (tools::bench::lists_collectives(GetParam())) {
    EXPECT_FALSE(tools::bench::read_collectives(GetParam()).empty());
    return;
  }
  if (advise::lists_choices(GetParam())) {
    EXPECT_FALSE(advise::read_choices(GetParam()).empty());
    return;
  }
  const std::string kind = read_experiment(GetParam(), {}).common.data.kind;
  const Experiment experiment = read_experiment(GetParam(), stand_in(kind));
  EXPECT_EQ(experiment.common.name, GetParam().stem().string());
  constexpr int cores = 2;
  EXPECT_FALSE(plan_comparison(experiment, cores).empty());
}

TEST(PublishedTables, AreListedWithAllTheirFiles) {
  const fs::path folder = fs::path(RINGSIDE_CLUSTERS).parent_path() / "published/reproduce";
  std::set<fs::path> listed;
  for (const PublishedTable& table : read_published_tables(folder / "tables.toml"))
    listed.insert(table.files.begin(), table.files.end());
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_TRUE(entry.path().filename() == "tables.toml" || listed.contains(entry.path()))
        << entry.path();
}

INSTANTIATE_TEST_SUITE_P(All, ExperimentFiles, ::testing::ValuesIn(experiment_files()),
                         [](const auto& info) {
                           std::string name = info.param.stem().string();
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace ringside::runner
