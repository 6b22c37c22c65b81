// Errors of ranks when others do not do their part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/peer/ranks.h"
#include "tests/support/manual_device.h"

namespace ringside {
namespace {

using ::testing::ContainsRegex;
using testing::errors_of_ranks;
using ::testing::HasSubstr;
using testing::Rank;
using ::testing::StartsWith;

constexpr double soon = 0.5;

/// pass() blocks until as many ranks have called it as the constructor was told, so that no rank
/// leaves the group early.
class Gate {
 public:
  explicit Gate(int last) : last_(last) {}
  void pass() {
    std::unique_lock lock(mutex_);
    if (++here_ == last_) changed_.notify_all();
    changed_.wait(lock, [&] { return here_ >= last_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int last_, here_ = 0;
};

TEST(Failures, ARankThatDoesNotComeIsNamedWithTheOperation) {
  Gate gate(4);
  const auto errors = errors_of_ranks(4, soon, [&](const Rank& r) {
    r.comm.barrier();
    std::string error;
    if (r.rank != 2) {
      try {
        r.comm.all_reduce(r.floats(1024))->wait();
      } catch (const Error& e) {
        error = e.what();
      }
    }
    gate.pass();
    if (r.rank == 2) return;
    EXPECT_THAT(error,
                StartsWith("test: rank 2 of 4 did not begin operation 2 (all_reduce of 4096 "
                           "bytes) within 0.5 s; rank 2 of 4: ended operation 1 (barrier) "));
    EXPECT_THAT(error,
                HasSubstr("ranks 0, 1, 3 of 4: in operation 2 (all_reduce of 4096 bytes) for"));
    EXPECT_THROW(r.comm.barrier(), Error);  // at once, not after the deadline
    EXPECT_THROW(r.comm.send(r.floats(1), 0), Error);
  });
  EXPECT_EQ(errors, std::vector<std::string>(4));
}

TEST(Failures, ARankThatLeavesIsNoticedBeforeTheDeadline) {
  const auto errors = errors_of_ranks(3, 60, [&](const Rank& r) {
    r.comm.barrier();
    if (r.rank == 1) return;
    const WorkPtr work = r.comm.all_reduce(r.floats(1024));
    work->wait();
  });
  for (const int r : {0, 2}) {
    EXPECT_THAT(
        errors[static_cast<std::size_t>(r)],
        StartsWith("test: rank 1 of 3 ended before operation 2 (all_reduce of 4096 bytes); "));
    EXPECT_THAT(errors[static_cast<std::size_t>(r)],
                ContainsRegex("rank 1 of 3: ended operation 1 \\(barrier\\) .* s ago, then left"));
  }
  EXPECT_EQ(errors[1], "");
}

TEST(Failures, DifferentOperationsAreNamedOnEveryRank) {
  const auto errors = errors_of_ranks(3, 60, [&](const Rank& r) {
    if (r.rank == 2)
      r.comm.broadcast(r.floats(2), 1)->wait();
    else
      r.comm.all_reduce(r.floats(1024))->wait();
  });
  for (const auto& error : errors) {
    EXPECT_THAT(error, HasSubstr("test: operation 1 is all_reduce of 4096 bytes on rank 0 and "
                                 "broadcast of 8 bytes from rank 1 on rank 2"));
  }
}

TEST(Failures, DifferentSizesAreNamedOnEveryRank) {
  const auto errors = errors_of_ranks(
      2, 60, [&](const Rank& r) { r.comm.all_reduce(r.floats(r.rank + 1))->wait(); });
  for (const auto& error : errors)
    EXPECT_THAT(error,
                HasSubstr("all_reduce of 4 bytes on rank 0 and all_reduce of 8 bytes on rank 1"));
}

TEST(Failures, OperationsBehindTheOneThatFailedFailToo) {
  const auto errors = errors_of_ranks(2, 60, [&](const Rank& r) {
    std::vector<WorkPtr> works;
    works.push_back(r.comm.all_reduce(r.floats(r.rank + 1)));
    for (int i = 0; i < 5; ++i) {
      try {
        works.push_back(r.comm.all_reduce(r.floats(8)));
      } catch (const Error&) {
        break;  // the group broke before this call
      }
    }
    for (const auto& work : works) EXPECT_THROW(work->wait(), Error);
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(Failures, AMessageThatIsNotSentIsNamed) {
  Gate gate(2);
  const auto errors = errors_of_ranks(2, soon, [&](const Rank& r) {
    std::string error;
    try {
      if (r.rank == 0) r.comm.recv(r.floats(4), 1)->wait();
    } catch (const Error& e) {
      error = e.what();
    }
    gate.pass();
    if (r.rank == 0) {
      EXPECT_EQ(error,
                "test: rank 1 of 2 did not begin message 1 of 16 bytes from rank 1 to rank 0 "
                "within 0.5 s");
    }
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(Failures, MessagesOfDifferentSizesFailOnBothEnds) {
  const auto errors = errors_of_ranks(2, 60, [&](const Rank& r) {
    if (r.rank == 0)
      r.comm.send(r.floats(4), 1)->wait();
    else
      r.comm.recv(r.floats(5), 0)->wait();
  });
  for (const auto& error : errors)
    EXPECT_EQ(error,
              "test: message 1 from rank 0 to rank 1 is sent with 16 bytes and received with 20");
}

TEST(Failures, AGroupThatDoesNotComeTogetherNamesWhoIsMissing) {
  MemoryStore store;
  const auto device = make_cpu_device(1);
  try {
    peer::make_shm_communicator(*device, store, {"ddp", 0, 3}, soon);
    FAIL() << "the group came together";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "ddp: ranks 1, 2 of 3 did not join the group within 0.5 s");
  }
  MemoryStore other;
  try {
    peer::make_shm_communicator(*device, other, {"ddp", 1, 2}, soon);
    FAIL() << "the group came together";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("ddp: rank 0 of 2 did not open the group"));
  }
}

TEST(Failures, WrongTensorsAreRefusedAtTheCall) {
  const auto errors = errors_of_ranks(2, 60, [&](const Rank& r) {
    EXPECT_THROW(r.comm.all_reduce(r.device.tensor({4}, MemoryKind::activation)), Error);
    EXPECT_THROW(r.comm.all_reduce(r.device.tensor({4}, MemoryKind::gradient, DType::i32)), Error);
    EXPECT_THROW(r.comm.all_gather(r.floats(2), r.floats(5)), Error);
    EXPECT_THROW(r.comm.reduce_scatter(r.floats(5), r.floats(2)), Error);
    EXPECT_THROW(r.comm.all_to_all(r.floats(3), r.floats(3)), Error);
    EXPECT_THROW(r.comm.broadcast(r.floats(1), 2), Error);
    EXPECT_THROW(r.comm.send(r.floats(1), -1), Error);
    r.comm.barrier();  // and the group is still whole
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

/// The device of a process that is stopped for an hour (Ctrl-Z) before it reads the clock for the
/// eleventh time.
class StoppedDevice : public testing::ManualDevice {
 public:
  explicit StoppedDevice(std::atomic<bool>& went_on) : went_on_(went_on) {}
  double now() const override {
    if (++looks_ > 10) went_on_ = true;
    return looks_ > 10 ? 3600 : 0;
  }

 private:
  std::atomic<bool>& went_on_;
  mutable std::atomic<int> looks_ = 0;
};

TEST(Failures, ATimeInWhichAllWereStoppedCountsForNoDeadline) {
  std::atomic<bool> went_on = false;
  const auto errors = testing::errors_of_ranks_on(
      [&] { return std::make_unique<StoppedDevice>(went_on); }, peer::make_shm_communicator, 2, 60,
      [&](const Rank& r) {
        while (r.rank == 1 && !went_on) std::this_thread::yield();
        r.comm.barrier();
      });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

}  // namespace
}  // namespace ringside
