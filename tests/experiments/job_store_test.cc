// The store that the scheduler of a job serves, with ranks that do not behave.
#include "experiments/tools/bench/ps_job_store.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>

namespace ringside::tools::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JobStores : public ::testing::Test {
 protected:
  JobStores() {
    for (int i = 0; i < 2; ++i) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      lines_.push_back(std::make_unique<JsonLine>(ends[0], 64 << 10));
      ranks_.push_back(std::make_unique<JsonLine>(ends[1]));
    }
    store_ = std::make_unique<JobStore>(std::move(lines_), std::vector<std::string>{"a", "b"},
                                        [this](const std::string& cause) {
                                          std::lock_guard lock(mutex_);
                                          said_.push_back(cause);
                                        });
  }

  std::vector<std::string> said() {
    std::lock_guard lock(mutex_);
    return said_;
  }
  /// The next value that a rank gets; null at the end of its line.
  nlohmann::json next(int rank) {
    while (const auto values = ranks_[static_cast<std::size_t>(rank)]->receive())
      if (!values->empty()) return values->front();
    return nullptr;
  }
  /// What the rank gets for a key that it sets itself.
  nlohmann::json set_and_get(int rank, const std::string& key, const std::string& value) {
    JsonLine& line = *ranks_[static_cast<std::size_t>(rank)];
    line.send({{"set", {key, value}}});
    line.send({{"get", key}});
    return next(rank);
  }

  std::vector<std::unique_ptr<JsonLine>> lines_, ranks_;
  std::mutex mutex_;
  std::vector<std::string> said_;
  std::unique_ptr<JobStore> store_;  // its thread uses what stands above
};

TEST_F(JobStores, EndOnceAllHaveHeard) {
  std::jthread a([this] {
    EXPECT_TRUE(next(0).contains("over"));
    ranks_[0]->send({{"heard", true}});  // and stays
  });
  std::jthread b([this] {
    EXPECT_TRUE(next(1).contains("over"));
    ranks_[1].reset();
  });
  store_->end({.timeout_s = 60});
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(JobStores, NameWhoHasNotHeard) {
  std::jthread a([this] {
    EXPECT_TRUE(next(0).contains("over"));
    ranks_[0]->send({{"heard", true}});
  });
  store_->end({.timeout_s = 2});
  EXPECT_THAT(said(), ElementsAre("b did not hear that the job is over"));
}

TEST_F(JobStores, AnswerOthersBesideARankThatDoesNotRead) {
  const std::string large(30'000, 'x');
  EXPECT_TRUE(set_and_get(1, "large", large).contains("value"));
  for (int i = 0; i < 100; ++i) ranks_[0]->send({{"get", "large"}});
  EXPECT_TRUE(set_and_get(1, "key", "value").contains("value"));
  EXPECT_THAT(said(), ElementsAre("a is cut off: it does not read"));
  EXPECT_THAT(store_->gone(), ElementsAre("a"));
}

TEST_F(JobStores, CutOffWhoseLineIsTooLong) {
  ranks_[0]->send({{"set", {"key", std::string(200'000, 'x')}}});
  EXPECT_EQ(next(0), nullptr);
  EXPECT_THAT(said(), ElementsAre(HasSubstr("a is cut off: ")));
  EXPECT_TRUE(set_and_get(1, "key", "value").contains("value"));
}

TEST_F(JobStores, CountWhatIsKept) {
  const std::string large(60'000, 'x');
  for (int i = 0; i < 1200; ++i) ranks_[0]->send({{"set", {"key", large}}});  // 72 MB
  EXPECT_TRUE(set_and_get(0, "other", "value").contains("value"));
  EXPECT_THAT(said(), IsEmpty());
}

}  // namespace
}  // namespace ringside::tools::bench
