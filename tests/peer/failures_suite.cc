#include "tests/peer/failures_suite.h"

#include <gmock/gmock.h>

#include "core/base/error.h"
#include "tests/support/complaint.h"

namespace ringside::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_P(LateRanks, AreNamedAtTheDeadlineWithTheOperation) {
  // The late rank of several hosts is alone on its host: others there may be named in its place.
  const int size = sees_all() ? 4 : 3;
  const std::string operation = "operation 2 \\(all_reduce of 4096 bytes\\)";
  const std::string expected = fmt::format(
      "^test: rank 2 of {} did not begin {} within {} s; {}; {}: in {} for {} s", size, operation,
      soon(),
      sees_all() ? "rank 2 of 4: ended operation 1 \\(barrier\\) " + text_of(soon()) + " s ago"
                 : "rank 2 of 3 says nothing",
      sees_all() ? "ranks 0, 1, 3 of 4" : "ranks 0, 1 of 3", operation, text_of(soon()));
  const auto errors = errors_of(size, soon(), [&](const Rank& r) {
    r.comm.barrier();
    if (r.rank == 2) {
      hold(r);
      EXPECT_THROW(r.comm.all_reduce(r.floats(1024))->wait(), Error);
      return;
    }
    const double begin = r.device.clock().now();
    EXPECT_THAT(complaint([&] { r.comm.all_reduce(r.floats(1024))->wait(); }),
                ContainsRegex(expected));
    const double failed = r.device.clock().now();
    EXPECT_THROW(r.comm.barrier(), Error);  // at once, not after the deadline
    EXPECT_THROW(r.comm.send(r.floats(1), 0), Error);
    if (simulated()) {
      EXPECT_NEAR(failed - begin, soon(), 1e-3);
      EXPECT_EQ(r.device.clock().now(), failed);
    }
    hold(r);
  });
  EXPECT_EQ(errors, std::vector<std::string>(static_cast<std::size_t>(size)));
}

TEST_P(Failures, ARankThatLeavesIsNoticedBeforeTheDeadline) {
  const EndOfRanks end = run({3, 60, [&](const Rank& r) {
                                r.comm.barrier();
                                if (r.rank == 1) return pass_virtual_time(r, 1);
                                r.comm.all_reduce(r.floats(1024))->wait();
                              }});
  EXPECT_EQ(end.errors[1], "");
  for (const std::size_t r : {0, 2}) {
    EXPECT_THAT(
        end.errors[r],
        StartsWith("test: rank 1 of 3 ended before operation 2 (all_reduce of 4096 bytes)"));
    if (sees_all()) {
      EXPECT_THAT(end.errors[r], ContainsRegex("; rank 1 of 3: ended operation 1 \\(barrier\\) " +
                                               text_of(1) + " s ago, then left"));
    }
    if (simulated()) {
      EXPECT_THAT(end.errors[r], HasSubstr("; ranks 0, 2 of 3: in operation 2 (all_reduce of 4096 "
                                           "bytes) for 1.00 s"));
    }
  }
  EXPECT_LT(end.seconds, 30);
  expect_seconds(end.seconds, simulated() ? 1 : 0);
}

TEST_P(Failures, ARankThatAnErrorEndsLeavesNoRankWaitingForEver) {
  const auto errors = errors_of(3, 60, [&](const Rank& r) {
    const Tensor array = r.floats(1024);
    const WorkPtr work = r.comm.all_reduce(array);
    if (r.rank == 1) throw Error("lost");
    work->wait();
    r.comm.all_reduce(array)->wait();
  });
  EXPECT_EQ(errors[1], "lost");
  // In real time the operation goes on without the rank's caller.
  for (const std::size_t r : {0, 2})
    EXPECT_THAT(errors[r], StartsWith(simulated() ? "test: rank 1 of 3 failed during operation 1 "
                                                    "(all_reduce of 4096 bytes)"
                                                  : "test: rank 1 of 3 ended before operation 2 "
                                                    "(all_reduce of 4096 bytes)"));
}

TEST_P(Failures, DifferentOperationsAreNamedOnEveryRank) {
  const auto errors = errors_of(4, 60, [](const Rank& r) {
    if (r.rank >= 2)
      r.comm.broadcast(r.floats(2), 1)->wait();
    else
      r.comm.all_reduce(r.floats(100'000))->wait();
  });
  const std::string first = sees_all() ? "0" : "[01]", second = sees_all() ? "2" : "[23]";
  for (const auto& error : errors)
    EXPECT_THAT(error,
                ContainsRegex("test: operation 1 is all_reduce of 400000 bytes on rank " + first +
                              " and broadcast of 8 bytes from rank 1 on rank " + second));
}

TEST_P(Failures, DifferentSizesAreNamedOnEveryRank) {
  const auto errors = errors_of(2, 60, [&](const Rank& r) {
    pass_virtual_time(r, r.rank == 0 ? 1 : 0);
    r.comm.all_reduce(r.floats(r.rank + 1))->wait();
  });
  for (const auto& error : errors)
    EXPECT_THAT(error,
                HasSubstr("all_reduce of 4 bytes on rank 0 and all_reduce of 8 bytes on rank 1"));
}

TEST_P(Failures, OperationsBehindTheOneThatFailedFailToo) {
  const auto errors = errors_of(2, 60, [&](const Rank& r) {
    const WorkPtr good = r.comm.all_reduce(r.floats(4));
    std::vector<WorkPtr> works;
    works.push_back(r.comm.all_reduce(r.floats(r.rank + 1)));
    for (int i = 0; i < 5; ++i) {
      try {
        works.push_back(r.comm.all_reduce(r.floats(8)));
      } catch (const Error&) {  // the group broke before this call
        if (simulated()) throw;
        break;
      }
    }
    good->wait();
    for (const auto& work : works) EXPECT_THROW(work->wait(), Error);
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST_P(Failures, AMessageThatIsNotSentIsNamed) {
  const auto errors = errors_of(2, soon(), [&](const Rank& r) {
    std::string error;
    if (r.rank == 0) error = complaint([&] { r.comm.recv(r.floats(4), 1)->wait(); });
    hold(r);
    if (r.rank == 1) return;
    const std::string expected = fmt::format(
        "test: rank 1 of 2 did not begin message 1 of 16 bytes from rank 1 to rank 0 within {} s",
        soon());
    if (sees_all())
      EXPECT_EQ(error, expected);
    else
      EXPECT_THAT(error, StartsWith(expected));
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST_P(WatchedMessages, ToARankThatLeavesAreNamed) {
  const auto errors = errors_of(2, 60, [](const Rank& r) {
    if (r.rank == 0) r.comm.send(r.floats(4), 1)->wait();
  });
  EXPECT_EQ(errors[0],
            "test: rank 1 of 2 ended before message 1 of 16 bytes from rank 0 to rank 1");
  EXPECT_EQ(errors[1], "");
}

TEST_P(Failures, MessagesOfDifferentSizesFailOnBothEnds) {
  const auto errors = errors_of(2, 60, [](const Rank& r) {
    if (r.rank == 0)
      r.comm.send(r.floats(4), 1)->wait();
    else
      r.comm.recv(r.floats(5), 0)->wait();
  });
  for (const auto& error : errors)
    EXPECT_EQ(error,
              "test: message 1 from rank 0 to rank 1 is sent with 16 bytes and received with 20");
}

TEST_P(Failures, AGroupThatDoesNotComeTogetherNamesWhoIsMissing) {
  const EndOfRanks end = run({.size = 4, .timeout_s = soon(), .body = {}, .present = 2});
  for (const std::size_t r : {0, 1})
    EXPECT_EQ(end.errors[r],
              fmt::format("test: ranks 2, 3 of 4 did not join the group within {} s", soon()));
  expect_seconds(end.seconds, soon());
}

TEST_P(Failures, WrongTensorsAreRefusedAtTheCall) {
  const auto errors = errors_of(2, 60, [](const Rank& r) {
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

}  // namespace
}  // namespace ringside::testing
