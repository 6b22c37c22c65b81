// The communicator over NCCL: the suite of all communicators, and its particular behaviour.

#include "core/base/error.h"
#include "tests/cuda/nccl_ranks.h"
#include "tests/peer/collectives_suite.h"

namespace ringside::testing {
namespace {

const auto nccl_and_sizes = ::testing::Combine(::testing::Values(Ranks{"nccl", run_nccl_ranks}),
                                               ::testing::Values(1, 2, 3, 4, 7));
INSTANTIATE_TEST_SUITE_P(Worlds, Collectives, nccl_and_sizes, name_of_world);
INSTANTIATE_TEST_SUITE_P(Worlds, SmallOperations, nccl_and_sizes, name_of_world);
INSTANTIATE_TEST_SUITE_P(Worlds, SumsAndGathers, nccl_and_sizes, name_of_world);
INSTANTIATE_TEST_SUITE_P(Worlds, LeastTraffic, nccl_and_sizes, name_of_world);

std::vector<float> read_bf16(const Rank& r, const Tensor& array) {
  std::vector<bf16> values(static_cast<std::size_t>(array.count()));
  r.device.read(array, std::as_writable_bytes(std::span(values)));
  std::vector<float> out;
  for (const bf16 value : values) out.push_back(to_float(value));
  return out;
}

/// Element i is `first` + i, which bf16 represents exactly.
Tensor small_numbers(const Rank& r, std::int64_t count, int first) {
  std::vector<bf16> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(to_bf16(static_cast<float>(first + i)));
  const Tensor out = r.device.tensor({count}, MemoryKind::gradient, DType::bf16);
  r.device.write(out, std::as_bytes(std::span(values)));
  return out;
}

TEST(NcclSums, AreOfBf16Too) {
  run_nccl_ranks(3, [](const Rank& r) {
    const std::int64_t n = 7;
    const Tensor array = small_numbers(r, 3 * n, r.rank);
    const Tensor part = r.device.tensor({n}, MemoryKind::gradient, DType::bf16);
    r.comm.reduce_scatter(array, part)->wait();
    r.comm.all_reduce(array)->wait();
    const auto sum = [](std::int64_t i) { return static_cast<float>(3 * i + 0 + 1 + 2); };
    const auto whole = read_bf16(r, array), own = read_bf16(r, part);
    for (std::int64_t i = 0; i < 3 * n; ++i) EXPECT_EQ(whole[static_cast<std::size_t>(i)], sum(i));
    for (std::int64_t i = 0; i < n; ++i)
      EXPECT_EQ(own[static_cast<std::size_t>(i)], sum(r.rank * n + i));
  });
}

TEST(NcclTraffic, IsComputedAndSaysSo) {
  run_nccl_ranks(2, [](const Rank& r) {
    const Traffic before = r.comm.traffic();
    r.comm.all_reduce(r.floats(64, [](std::int64_t) { return 1.0F; }))->wait();
    const Traffic bytes = r.comm.traffic() - before;
    EXPECT_GT(bytes.sent, 0);
    EXPECT_TRUE(bytes.computed);
  });
}

TEST(NcclMoves, AreOfAnyType) {
  run_nccl_ranks(2, [](const Rank& r) {
    const Tensor all = r.device.tensor({6}, MemoryKind::data, DType::i32);
    const std::vector<std::int32_t> own = {r.rank * 3, r.rank * 3 + 1, r.rank * 3 + 2};
    r.device.write(all.range(3 * r.rank, 3), std::as_bytes(std::span(own)));
    r.comm.all_gather(all.range(3 * r.rank, 3), all)->wait();
    const Tensor bytes = r.device.tensor({5}, MemoryKind::data, DType::u8);
    const std::vector<std::uint8_t> letters = {'a', 'b', 'c', 'd', 'e'};
    if (r.rank == 1) r.device.write(bytes, std::as_bytes(std::span(letters)));
    r.comm.broadcast(bytes, 1)->wait();
    std::vector<std::int32_t> numbers(6);
    r.device.read(all, std::as_writable_bytes(std::span(numbers)));
    EXPECT_EQ(numbers, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
    std::vector<std::uint8_t> text(5);
    r.device.read(bytes, std::as_writable_bytes(std::span(text)));
    EXPECT_EQ(text, letters);
  });
}

TEST(NcclWork, RunsAfterComputeAndBeforeLaterComputeWithoutTheHost) {
  run_nccl_ranks(2, [](const Rank& r) {
    const auto& kernels = r.device.kernels();
    const Tensor a = r.floats(50'000), b = r.floats(50'000);
    for (int round = 0; round < 20; ++round) {
      kernels.fill({.out = a, .value = static_cast<float>(round)});
      const WorkPtr work = r.comm.all_reduce(a);
      kernels.fill({.out = b, .value = 1.0F});  // while the ranks sum up `a`
      work->wait();
      kernels.add({.in = a, .out = b});
      expect_all(r, b, [&](std::int64_t) { return static_cast<float>(2 * round + 1); });
    }
  });
}

TEST(NcclWork, KeepsMemoryOfTensorsThatAreNotHeld) {
  run_nccl_ranks(2, [](const Rank& r) {
    const Tensor all = r.floats(2 * 10'000);
    for (int round = 0; round < 50; ++round) {
      WorkPtr work;
      {
        const Tensor part = r.floats(10'000);
        r.device.kernels().fill({.out = part, .value = static_cast<float>(round + r.rank)});
        work = r.comm.all_gather(part, all);
      }
      // If nobody kept the memory of `part`, `other` would take it.
      const Tensor other = r.floats(10'000);
      r.device.kernels().fill({.out = other, .value = -1.0F});
      work.reset();
      expect_all(r, all, [&](std::int64_t i) { return static_cast<float>(round + i / 10'000); });
    }
  });
}

TEST(NcclWork, SpansAreOfTheOperation) {
  run_nccl_ranks(2, [](const Rank& r) {
    const double before = r.device.clock().now();
    const WorkPtr work = r.comm.all_reduce(r.floats(1 << 20, [](std::int64_t) { return 1.0F; }));
    work->wait();
    work->wait();  // waiting twice is allowed
    const Work::Span span = work->span();
    const double begin = r.device.time(span.begin), end = r.device.time(span.end);
    const double after = r.device.clock().now();
    constexpr double drift = 1e-3;  // seconds between a GPU's clock and the host's
    EXPECT_GT(end, begin);
    EXPECT_GT(begin, before - drift);
    EXPECT_LT(end, after + drift);
  });
}

TEST(NcclMessages, PassCollectivesThatCannotBeginYet) {
  // Rank 0 sends a message and begins a collective, which rank 1 begins only when it has received
  // the message.
  run_nccl_ranks(2, [](const Rank& r) {
    const Tensor array = r.floats(1000), sum = r.floats(10, [](std::int64_t) { return 1.0F; });
    if (r.rank == 0) {
      r.set(array, [](std::int64_t i) { return static_cast<float>(i); });
      const WorkPtr sent = r.comm.send(array, 1);
      r.comm.all_reduce(sum)->wait();
      expect_all(r, sum, [](std::int64_t) { return 2.0F; });
    } else {
      r.comm.recv(array, 0)->wait();
      expect_all(r, array, [](std::int64_t i) { return static_cast<float>(i); });
      r.comm.all_reduce(sum)->wait();
    }
  });
}

TEST(NcclMessages, OfTwoDirectionsDoNotWaitForEachOther) {
  // Rank 0 begins recv() of the answer first. Only then does it send the messages from which rank 1
  // computes that answer.
  run_nccl_ranks(2, [](const Rank& r) {
    const Tensor first = r.floats(500), second = r.floats(500), answer = r.floats(500);
    const auto& kernels = r.device.kernels();
    if (r.rank == 0) {
      const WorkPtr answered = r.comm.recv(answer, 1);
      kernels.fill({.out = first, .value = 1.0F});
      r.comm.send(first, 1)->wait();
      kernels.fill({.out = second, .value = 2.0F});
      r.comm.send(second, 1)->wait();
      answered->wait();
      expect_all(r, answer, [](std::int64_t) { return 3.0F; });
    } else {
      r.comm.recv(first, 0)->wait();
      r.comm.recv(second, 0)->wait();
      kernels.add({.in = first, .out = second});
      r.comm.send(second, 0)->wait();
    }
  });
}

TEST(NcclGroups, AreOneAmongSeveralOfTheSameRanks) {
  run_nccl_ranks(2, [](const Rank& r) {
    auto& gpu = cuda::cuda_device(r.device);
    const auto other = peer::make_nccl_communicator(gpu, r.store, {"other", 1 - r.rank, 2}, 60);
    const Tensor a = r.floats(10, [](std::int64_t) { return 1.0F; }), b = r.floats(2);
    const Tensor own = r.floats(1, [&](std::int64_t) { return static_cast<float>(r.rank); });
    const WorkPtr sum = r.comm.all_reduce(a);
    other->all_gather(own, b)->wait();
    sum->wait();
    expect_all(r, a, [](std::int64_t) { return 2.0F; });
    expect_all(r, b, [](std::int64_t i) { return static_cast<float>(1 - i); });
  });
}

TEST(LookForNccl, TellsItsVersion) {
  const peer::NcclFound found = peer::look_for_nccl();
  EXPECT_EQ(found.cause, "");
  EXPECT_EQ(found.version.substr(0, 2), "2.") << found.version;
}

}  // namespace
}  // namespace ringside::testing
