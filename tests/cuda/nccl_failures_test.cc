// Errors of NCCL ranks when other ranks do not do their part. No rank waits for ever.
#include <gmock/gmock.h>

#include <latch>

#include "core/base/error.h"
#include "tests/cuda/nccl_ranks.h"

namespace ringside::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double soon = 0.3;

/// Forms a group, calls `body` on every rank and returns the ranks' errors. No rank leaves the
/// group before `body` has ended on all ranks.
std::vector<std::string> errors_in_group(int size, double timeout_s,
                                         const std::function<void(const Rank&)>& body) {
  std::latch all_done(size);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  const auto others = errors_of_nccl_ranks(size, timeout_s, [&](const Rank& r) {
    auto& error = errors[static_cast<std::size_t>(r.rank)];
    error = complaint([&] {
      r.comm.barrier();
      body(r);
    });
    all_done.arrive_and_wait();
  });
  EXPECT_EQ(others, std::vector<std::string>(static_cast<std::size_t>(size)));
  return errors;
}

constexpr const char* advice =
    "another rank failed or is late; see what that rank says, or raise train.timeout_s";

TEST(NcclFailures, RanksThatDoNotJoinAreNamed) {
  const auto gpu = cuda::make_cuda_device({});
  const auto join = [&](int rank, int size) {
    MemoryStore store;
    return complaint([&] { peer::make_nccl_communicator(*gpu, store, {"ddp", rank, size}, soon); });
  };
  EXPECT_EQ(join(0, 3), "ddp: rank 0 of 3: ranks 1, 2 did not join the group within 0.3 s");
  EXPECT_EQ(join(1, 2), "ddp: rank 1 of 2: rank 0 did not join the group within 0.3 s");
}

TEST(NcclFailures, ARankThatDoesNotComeToAnOperationIsNoticedWhereTheHostWaits) {
  const auto errors = errors_in_group(3, soon, [](const Rank& r) {
    if (r.rank == 1) return;
    const Tensor array = r.floats(1024);
    r.comm.all_reduce(array)->wait();
    r.values(array);
  });
  for (const int r : {0, 2})
    EXPECT_THAT(errors[static_cast<std::size_t>(r)],
                AllOf(StartsWith(fmt::format(
                          "test: rank {} of 3: operation 2 (all_reduce of 4096 bytes) did not end "
                          "within 0.3 s: rank 1 of 3 says nothing; rank {}: in operation 2 "
                          "(all_reduce of 4096 bytes) for ",
                          r, 2 - r)),
                      EndsWith(advice)));
  EXPECT_EQ(errors[1], "nothing");
}

TEST(NcclFailures, ARankThatDoesNotComeToTheFirstOperationIsNoticedAtTheCall) {
  const auto errors = errors_of_nccl_ranks(2, soon, [](const Rank& r) {
    if (r.rank == 0) r.comm.broadcast(r.floats(2), 1);
  });
  EXPECT_EQ(errors[0], fmt::format("test: rank 0 of 2: operation 1 (broadcast of 8 bytes from rank "
                                   "1) did not begin within 0.3 s: rank 1 of 2 says nothing; {}",
                                   advice));
  EXPECT_EQ(errors[1], "");
}

TEST(NcclFailures, LaterOperationsThrowTheSame) {
  errors_in_group(2, soon, [](const Rank& r) {
    if (r.rank == 1) return;
    const Tensor array = r.floats(8), part = r.floats(4);
    const WorkPtr late = r.comm.all_reduce(array), behind = r.comm.all_gather(part, array);
    const std::string error = complaint([&] { late->wait(), r.device.synchronize(); });
    EXPECT_THAT(error, HasSubstr("operation 2"));
    const std::function<void()> calls[] = {[&] { late->wait(); },
                                           [&] { behind->wait(); },
                                           [&] { r.comm.all_reduce(array); },
                                           [&] { r.comm.reduce_scatter(array, part); },
                                           [&] { r.comm.all_gather(part, array); },
                                           [&] { r.comm.broadcast(array, 0); },
                                           [&] { r.comm.all_to_all(array, r.floats(8)); },
                                           [&] { r.comm.send(array, 1); },
                                           [&] { r.comm.recv(array, 1); },
                                           [&] { r.comm.barrier(); },
                                           [&] { r.comm.split(0, 0); }};
    for (const auto& call : calls) EXPECT_EQ(complaint(call), error);
    r.device.synchronize();  // work enqueued behind the failed operation runs
  });
}

TEST(NcclFailures, OperationsThatDoNotAgreeFailOnAllRanks) {
  const auto errors = errors_in_group(2, 60, [](const Rank& r) {
    const Tensor array = r.floats(r.rank + 1);
    r.comm.all_reduce(array)->wait();
    r.values(array);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("operation 2 (all_reduce of "), HasSubstr("NCCL: ")));
}

TEST(NcclFailures, AMessageThatIsNotSentIsNamed) {
  const auto receive = [](const Rank& r) {
    const Tensor array = r.floats(4);
    r.comm.recv(array, 1)->wait();
    r.values(array);
  };
  // In the first run the missing message is the first one between the two ranks, and would connect
  // them. In the second run it is the second one, so the ranks are connected already.
  auto errors = errors_in_group(2, soon, [&](const Rank& r) {
    if (r.rank == 0) receive(r);
  });
  EXPECT_EQ(errors[0],
            "test: rank 0 of 2: message of 16 bytes from rank 1 to rank 0: the other rank did not "
            "come to the first message of this direction within 0.3 s; see the error of that rank, "
            "or raise train.timeout_s");
  errors = errors_in_group(2, soon, [&](const Rank& r) {
    if (r.rank == 1) r.comm.send(r.floats(4), 0)->wait();
    if (r.rank == 0) receive(r), receive(r);
  });
  EXPECT_EQ(errors[0], fmt::format("test: rank 0 of 2: message of 16 bytes from rank 1 to rank 0 "
                                   "did not end within 0.3 s: {}",
                                   advice));
  EXPECT_EQ(errors[1], "nothing");
}

TEST(NcclFailures, AMessageToOneselfNeedsItsOtherEnd) {
  const auto errors =
      errors_in_group(1, 60, [](const Rank& r) { r.comm.send(r.floats(4), 0)->wait(); });
  EXPECT_EQ(errors[0],
            "test: rank 0 of 1: message of 16 bytes from rank 0 to rank 0 was sent without "
            "being received, or the other way round; waiting for it would never end");
}

TEST(NcclFailures, ARankThatEndsEarlyIsNoticedByItsDeadline) {
  const auto errors = errors_of_nccl_ranks(2, soon, [](const Rank& r) {
    r.comm.barrier();
    if (r.rank == 1) return;  // the destructor of its communicator waits for rank 0, in vain
    const Tensor array = r.floats(8);
    r.comm.all_reduce(array)->wait();
    r.values(array);
  });
  EXPECT_THAT(errors[0], HasSubstr("operation 2 (all_reduce of 32 bytes) did not end within"));
  EXPECT_EQ(errors[1], "");
}

TEST(NcclFailures, ARankThatFailsItselfWaitsForNoOther) {
  // Rank 0's timeout is 600 s. The test would take so long if the destructor of rank 0's
  // communicator waited for rank 1.
  const double time[] = {600, soon};
  MemoryStore store;
  std::string errors[2];
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        errors[rank] = complaint([&] {
          const auto gpu = cuda::make_cuda_device({});
          const auto comm = peer::make_nccl_communicator(*gpu, store, {"ddp", rank, 2}, time[rank]);
          comm->barrier();
          const Tensor array = gpu->tensor({4}, MemoryKind::communication);
          const WorkPtr sum = comm->all_reduce(array), message = comm->recv(array, 1 - rank);
          if (rank == 0) throw Error("the loss is nan");
          sum->wait();
          message->wait();
        });
      });
  }
  EXPECT_EQ(errors[0], "the loss is nan");
  EXPECT_THAT(errors[1], HasSubstr("ddp: rank 1 of 2: message of 16 bytes from rank 0 to rank 1"));
}

TEST(NcclFailures, ASplitThatNotAllComeToFails) {
  const auto errors = errors_in_group(2, soon, [](const Rank& r) {
    if (r.rank == 0) r.comm.split(0, 0);
  });
  EXPECT_EQ(errors[0],
            "test: rank 0 of 2: split into test/2.0: not all ranks took part within 0.3 s; raise "
            "train.timeout_s");
}

TEST(NcclFailures, WrongArgumentsAreRefusedAtTheCall) {
  const auto errors = errors_in_group(2, 60, [](const Rank& r) {
    const Tensor numbers = r.device.tensor({4}, MemoryKind::data, DType::i32);
    const Tensor halves = r.device.tensor({2}, MemoryKind::data, DType::bf16);
    const std::pair<std::function<void()>, const char*> wrong[] = {
        {[&] { r.comm.all_reduce(numbers); },
         "all_reduce of 4 elements of int32: ranks can sum only fp32, bf16 and fp16"},
        {[&] { r.comm.reduce_scatter(numbers, numbers.range(0, 2)); },
         "reduce_scatter of 4 elements of int32"},
        {[&] { r.comm.all_gather(r.floats(2), r.floats(5)); },
         "do not match an array of 5 elements"},
        {[&] { r.comm.reduce_scatter(r.floats(5), r.floats(2)); },
         "do not match an array of 5 elements"},
        {[&] { r.comm.all_gather(halves, r.floats(4)); }, "2 parts of 2 elements (bf16)"},
        {[&] { r.comm.all_to_all(r.floats(3), r.floats(3)); }, "a multiple of the number of ranks"},
        {[&] { r.comm.broadcast(r.floats(1), 2); },
         "broadcast: there is no rank 2 in a group of 2"},
        {[&] { r.comm.send(r.floats(1), -1); }, "send: there is no rank -1 in a group of 2"},
        {[&] { r.comm.recv(r.floats(1), 2); }, "recv: there is no rank 2 in a group of 2"},
        {[&] { r.comm.split(-1, 0); }, "colour -1 must be 0 or more"}};
    for (const auto& [call, text] : wrong) EXPECT_THAT(complaint(call), HasSubstr(text));
    r.comm.barrier();  // the group still works
  });
  EXPECT_EQ(errors, std::vector<std::string>(2, "nothing"));
}

}  // namespace
}  // namespace ringside::testing
