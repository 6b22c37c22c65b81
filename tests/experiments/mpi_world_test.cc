#include "experiments/runner/hosts/mpi_world.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "experiments/runner/registry/mpi_of.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

/// Starts nothing, and reports that the processes that it is told to end have ended.
class ObedientHost : public RankHost {
 public:
  void start(const RunPlan&, int) override {}
  void send(int, const nlohmann::json&) override {}
  void signal(int, int) override {}
  void tell(const nlohmann::json& value) override {
    if (value.contains("end")) answers_.push_back({{"command", value["end"]}, {"status", 0}});
    if (value.contains("world") && value["world"].is_null()) answers_.push_back({{"left", true}});
  }
  std::vector<int> files() const override { return {}; }
  bool expects_end() const override { return false; }
  void read(RankEvents& events) override {
    for (const nlohmann::json& answer : std::exchange(answers_, {})) events.told(answer);
  }

 private:
  std::vector<nlohmann::json> answers_;
};

class MpiWorldTest : public ::testing::Test {
 protected:
  MpiWorldTest() {
    const auto launcher = folder_.write("mpirun.openmpi", "#!/bin/sh\n");
    std::filesystem::permissions(launcher, std::filesystem::perms::owner_all);
    plan_.train.timeout_s = 0.2;
    for (int rank = 0; rank < 3; ++rank)
      plan_.homes.push_back({rank < 2 ? "a" : "b", "127.0.0.1", 0});
    world_.emplace(plan_, InterHostBackend::openmpi, std::vector<RankHost*>{&host_},
                   std::vector<std::string>{"PATH=" + folder_.path().string()},
                   [this] { return now_; });
  }

  std::string failure_after_the_deadline() {
    now_ += 1.5 * plan_.train.timeout_s;
    world_->attend();
    return world_->failure();
  }
  void came(int rank) { world_->hear({{"came", rank}}); }
  void entered(int rank) { world_->note_set(entered_mpi_key(rank)); }

  testing::TemporaryFolder folder_;
  RunPlan plan_;
  ObedientHost host_;
  double now_ = 0;
  std::optional<MpiWorld> world_;
};

TEST_F(MpiWorldTest, NamesTheRanksThatItsLauncherHasNotStarted) {
  came(1);
  EXPECT_EQ(failure_after_the_deadline(),
            "the launcher of Open MPI has not started rank 0 on a, rank 2 on b within 0.2 s");
}

TEST_F(MpiWorldTest, NamesTheRanksThatDoNotComeThroughTheBeginOfMpi) {
  for (const int rank : {0, 1, 2}) came(rank);
  entered(0);
  world_->attend();
  EXPECT_EQ(world_->failure(), "");
  EXPECT_EQ(failure_after_the_deadline(),
            "rank 1 on a, rank 2 on b did not come through MPI_Init of Open MPI within 0.2 s "
            "(train.timeout_s); look whether their hosts reach each other and all others, on all "
            "ports");
}

TEST_F(MpiWorldTest, HasAllTheTimeForRanksThatHaveEntered) {
  for (const int rank : {0, 1, 2}) came(rank);
  for (const int rank : {2, 1, 0}) entered(rank);
  EXPECT_EQ(failure_after_the_deadline(), "");
}

}  // namespace
}  // namespace ringside::runner
