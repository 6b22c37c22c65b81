// NCCL on the host: results, asynchronous calls, and failures.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "core/num/bf16.h"
#include "core/num/fp16.h"
#include "nccl.h"
#include "tests/cuda_on_host/stream.h"

namespace {

using Floats = std::vector<float>;

ncclUniqueId new_id() {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

ncclResult_t state(ncclComm_t comm) {
  ncclResult_t error = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
  return error;
}

// Waits until the communicator is no longer in progress, for at most 30 s. Returns its state.
ncclResult_t settle(ncclComm_t comm) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  ncclResult_t result;
  while ((result = state(comm)) == ncclInProgress && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  return result;
}

ncclConfig_t not_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator cudaStream_t() const { return stream_; }
  void wait() { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

// All ranks of a non-blocking communicator, driven by one thread.
class Ranks {
 public:
  explicit Ranks(int size) : comms(static_cast<std::size_t>(size)), streams(comms.size()) {
    const auto id = new_id();
    auto config = not_blocking();
    for (int r = 0; r < size; ++r)
      EXPECT_EQ(ncclCommInitRankConfig(&comms[index(r)], size, id, r, &config), ncclInProgress);
    settle_all();
  }
  ~Ranks() {
    for (auto comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  int size() const { return static_cast<int>(comms.size()); }
  void settle_all() {
    for (auto comm : comms) EXPECT_EQ(settle(comm), ncclSuccess);
  }
  // Calls call(rank, comm, stream) for each rank, then waits until all operations have run.
  template <class Call>
  void run(const Call& call) {
    for (int r = 0; r < size(); ++r) {
      const auto result = call(r, comms[index(r)], streams[index(r)]);
      EXPECT_TRUE(result == ncclSuccess || result == ncclInProgress) << result;
    }
    settle_all();
    for (auto& stream : streams) stream.wait();
  }

  std::vector<ncclComm_t> comms;
  std::vector<Stream> streams;
};

class Nccl : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Nccl, ::testing::Values(1, 2, 4));

TEST_P(Nccl, AllReduceSumsBesideAndInPlace) {
  Ranks ranks(GetParam());
  std::vector<Floats> in(ranks.comms.size(), Floats(3000)), out = in;
  for (std::size_t r = 0; r < in.size(); ++r)
    for (std::size_t i = 0; i < 3000; ++i) in[r][i] = static_cast<float>(r * 10000 + i);
  const float n = static_cast<float>(in.size()), all = n * (n - 1) / 2 * 10000;
  ranks.run([&](int r, ncclComm_t comm, cudaStream_t stream) {
    const auto i = Ranks::index(r);
    return ncclAllReduce(in[i].data(), out[i].data(), 3000, ncclFloat32, ncclSum, comm, stream);
  });
  ranks.run([&](int r, ncclComm_t comm, cudaStream_t stream) {
    auto* data = in[Ranks::index(r)].data();
    return ncclAllReduce(data, data, 3000, ncclFloat32, ncclSum, comm, stream);
  });
  for (std::size_t r = 0; r < in.size(); ++r)
    for (std::size_t i = 0; i < 3000; ++i) {
      ASSERT_EQ(out[r][i], all + n * static_cast<float>(i)) << r << " " << i;
      ASSERT_EQ(in[r][i], out[r][i]);
    }
}

TEST_P(Nccl, ReduceScatterAndAllGatherInPlaceAreAnAllReduce) {
  Ranks ranks(GetParam());
  const std::size_t n = ranks.comms.size(), part = 1500;
  std::vector<Floats> data(n, Floats(part * n));
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t i = 0; i < part * n; ++i) data[r][i] = static_cast<float>(i * (r + 1));
  ranks.run([&](int r, ncclComm_t comm, cudaStream_t stream) {
    auto& mine = data[Ranks::index(r)];
    return ncclReduceScatter(mine.data(), mine.data() + part * Ranks::index(r), part, ncclFloat32,
                             ncclSum, comm, stream);
  });
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t i = 0; i < part * n; ++i) {
      const bool reduced = i / part == r;
      ASSERT_EQ(data[r][i], static_cast<float>(i * (reduced ? n * (n + 1) / 2 : r + 1)));
    }
  ranks.run([&](int r, ncclComm_t comm, cudaStream_t stream) {
    auto& mine = data[Ranks::index(r)];
    return ncclAllGather(mine.data() + part * Ranks::index(r), mine.data(), part, ncclFloat32, comm,
                         stream);
  });
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t i = 0; i < part * n; ++i)
      ASSERT_EQ(data[r][i], static_cast<float>(i * (n * (n + 1) / 2)));
}

TEST_P(Nccl, BroadcastReadsTheRootAlone) {
  Ranks ranks(GetParam());
  const int root = ranks.size() - 1;
  const Floats sent{1, 2, 3};
  std::vector<Floats> got(ranks.comms.size(), Floats(3));
  ranks.run([&](int r, ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(r == root ? sent.data() : nullptr, got[Ranks::index(r)].data(), 3,
                         ncclFloat32, root, comm, stream);
  });
  for (const auto& each : got) EXPECT_EQ(each, sent);
}

TEST_P(Nccl, GroupedMessagesTransposePartsAmongThemOnesOwn) {
  Ranks ranks(GetParam());
  const std::size_t n = ranks.comms.size();
  std::vector<Floats> in(n, Floats(n)), out(n, Floats(n));
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t p = 0; p < n; ++p) in[r][p] = static_cast<float>(100 * repeat + 10 * r + p);
    ranks.run([&](int r, ncclComm_t comm, cudaStream_t stream) {
      ncclGroupStart();
      for (int p = 0; p < ranks.size(); ++p) {
        const auto i = Ranks::index(r), j = Ranks::index(p);
        EXPECT_EQ(ncclSend(&in[i][j], 1, ncclFloat32, p, comm, stream), ncclSuccess);
        EXPECT_EQ(ncclRecv(&out[i][j], 1, ncclFloat32, p, comm, stream), ncclSuccess);
      }
      return ncclGroupEnd();
    });
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t p = 0; p < n; ++p) EXPECT_EQ(out[r][p], in[p][r]);
  }
}

TEST(NcclSums, RunInRankOrderAndRound16BitsOnce) {
  Ranks ranks(4);
  Floats wide{1e8F, 1, -1e8F, 1};
  using ringside::to_bf16;
  std::vector<ringside::bf16> narrow(4, to_bf16(0x1p-9F));
  narrow[0] = to_bf16(1);
  using ringside::to_fp16;
  std::vector<ringside::fp16> half(4, to_fp16(0x1p-12F));
  half[0] = to_fp16(1);
  ranks.run([&](int r, ncclComm_t comm, cudaStream_t stream) {
    ncclGroupStart();
    ncclAllReduce(&wide[Ranks::index(r)], &wide[Ranks::index(r)], 1, ncclFloat32, ncclSum, comm,
                  stream);
    auto* value = &narrow[Ranks::index(r)];
    ncclAllReduce(value, value, 1, ncclBfloat16, ncclSum, comm, stream);
    auto* other = &half[Ranks::index(r)];
    ncclAllReduce(other, other, 1, ncclFloat16, ncclSum, comm, stream);
    return ncclGroupEnd();
  });
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(wide[Ranks::index(r)], 1);  // ((1e8 + 1) - 1e8) + 1
    EXPECT_EQ(to_float(narrow[Ranks::index(r)]), 1 + 0x1p-7F);
    EXPECT_EQ(to_float(half[Ranks::index(r)]), 1 + 0x1p-10F);
  }
}

TEST(NcclReductions, AreAllThere) {
  Ranks ranks(2);
  std::vector<std::int32_t> got;
  for (const auto op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
    std::vector<std::int32_t> values{3, 5};
    ranks.run([&](int r, ncclComm_t comm, cudaStream_t stream) {
      auto* value = &values[Ranks::index(r)];
      return ncclAllReduce(value, value, 1, ncclInt32, op, comm, stream);
    });
    EXPECT_EQ(values[0], values[1]);
    got.push_back(values[0]);
  }
  EXPECT_EQ(got, (std::vector<std::int32_t>{8, 15, 5, 3, 4}));
}

TEST(NcclInit, IsInProgressUntilAllCame) {
  const auto id = new_id();
  auto config = not_blocking();
  std::vector<ncclComm_t> comms(2);
  ASSERT_EQ(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(state(comms[0]), ncclInProgress);
  int count = 0;
  EXPECT_EQ(ncclCommCount(comms[0], &count), ncclInvalidArgument);
  ASSERT_EQ(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config), ncclInProgress);
  EXPECT_EQ(ncclCommCount(comms[1], &count), ncclInvalidArgument);  // in progress until state()
  for (auto comm : comms) EXPECT_EQ(state(comm), ncclSuccess);
  int rank = 0;
  EXPECT_EQ(ncclCommCount(comms[0], &count), ncclSuccess);
  EXPECT_EQ(ncclCommUserRank(comms[1], &rank), ncclSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(rank, 1);
  for (auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(NcclInit, ARankThatAbortedIsNotThere) {
  const auto id = new_id();
  auto config = not_blocking();
  std::vector<ncclComm_t> comms(3);
  ncclCommInitRankConfig(&comms[0], 3, id, 0, &config);
  ncclCommInitRankConfig(&comms[1], 3, id, 1, &config);
  ncclCommAbort(comms[1]);
  ncclCommInitRankConfig(&comms[2], 3, id, 2, &config);
  EXPECT_EQ(state(comms[0]), ncclInProgress);
  EXPECT_EQ(state(comms[2]), ncclInProgress);
  ncclCommAbort(comms[0]);
  ncclCommAbort(comms[2]);
}

TEST(NcclInit, RefusesWhatIsWrong) {
  const auto id = new_id();
  auto config = not_blocking();
  ncclConfig_t blank{};
  ncclComm_t comm = nullptr, other = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(nullptr, 2, id, 0, &config), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 2, &config), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &blank), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, ncclUniqueId{}, 0, &config), ncclInvalidArgument);
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(ncclCommInitRankConfig(&other, 2, id, 0, &config), ncclInvalidUsage);
  EXPECT_EQ(state(comm), ncclInvalidUsage);
  ncclCommAbort(comm);
}

TEST(NcclBlocking, RanksAreThreadsOrOneGroup) {
  const auto id = new_id();
  std::vector<ncclComm_t> comms(2);
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) ncclCommInitRank(&comms[Ranks::index(r)], 2, id, r);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  Floats data{1, 2};
  const auto reduce = [&](std::size_t r) {
    Stream stream;
    EXPECT_EQ(ncclAllReduce(&data[r], &data[r], 1, ncclFloat32, ncclSum, comms[r], stream),
              ncclSuccess);
    stream.wait();
  };
  std::thread other(reduce, 1);
  reduce(0);
  other.join();
  EXPECT_EQ(data, (Floats{3, 3}));
  for (auto comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(NcclOperations, TheFirstIsEnqueuedOnceAllHaveCalled) {
  Ranks ranks(2);
  Floats data{1, 2};
  const auto reduce = [&](std::size_t r) {
    return ncclAllReduce(&data[r], &data[r], 1, ncclFloat32, ncclSum, ranks.comms[r],
                         ranks.streams[r]);
  };
  EXPECT_EQ(reduce(0), ncclInProgress);
  EXPECT_EQ(state(ranks.comms[0]), ncclInProgress);
  EXPECT_EQ(reduce(0), ncclInvalidArgument);
  ranks.streams[0].wait();  // returns at once: nothing is enqueued yet
  EXPECT_EQ(reduce(1), ncclInProgress);
  ranks.settle_all();
  for (auto& stream : ranks.streams) stream.wait();
  EXPECT_EQ(data, (Floats{3, 3}));
  EXPECT_EQ(reduce(0), ncclSuccess);
  EXPECT_EQ(reduce(1), ncclSuccess);
  for (auto& stream : ranks.streams) stream.wait();
  EXPECT_EQ(data, (Floats{6, 6}));
}

TEST(NcclOperations, StandInTheOrderOfTheirStream) {
  Ranks ranks(2);
  Floats data{1, 2}, seen{0, 0};
  std::promise<void> open;
  auto gate = open.get_future().share();
  enqueue(ranks.streams[1], [&data, gate] {
    gate.wait();
    data[1] = 20;
  });
  for (std::size_t r = 0; r < 2; ++r)
    ncclAllReduce(&data[r], &data[r], 1, ncclFloat32, ncclSum, ranks.comms[r], ranks.streams[r]);
  ranks.settle_all();
  for (std::size_t r = 0; r < 2; ++r) enqueue(ranks.streams[r], [&, r] { seen[r] = data[r]; });
  open.set_value();
  for (auto& stream : ranks.streams) stream.wait();
  EXPECT_EQ(seen, (Floats{21, 21}));
}

TEST(NcclOperations, MeetInTheOrderOfCallsOnSeveralStreams) {
  Ranks ranks(2);
  std::vector<Stream> others(2);
  Floats first{1, 2}, second{10, 20};
  ranks.run([&](int r, ncclComm_t comm, cudaStream_t stream) {
    auto* data = &first[Ranks::index(r)];
    return ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, comm, stream);
  });
  std::promise<void> open;
  auto gate = open.get_future().share();
  enqueue(ranks.streams[0], [gate] { gate.wait(); });
  for (std::size_t r = 0; r < 2; ++r) {
    auto comm = ranks.comms[r];
    ncclAllReduce(&first[r], &first[r], 1, ncclFloat32, ncclSum, comm, ranks.streams[r]);
    ncclAllReduce(&second[r], &second[r], 1, ncclFloat32, ncclSum, comm, others[r]);
  }
  for (auto& stream : others) stream.wait();  // the first reductions still wait
  EXPECT_EQ(first, (Floats{3, 3}));
  open.set_value();
  for (auto& stream : ranks.streams) stream.wait();
  EXPECT_EQ(first, (Floats{6, 6}));
  EXPECT_EQ(second, (Floats{30, 30}));
}

TEST(NcclOperations, RefuseWrongArguments) {
  Ranks ranks(2);
  Floats data(8);
  auto comm = ranks.comms[0];
  cudaStream_t stream = ranks.streams[0];
  auto* d = data.data();
  EXPECT_EQ(ncclAllReduce(d, d, 1, ncclFloat32, ncclSum, nullptr, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(d, nullptr, 1, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(d, d, 1, static_cast<ncclDataType_t>(12), ncclSum, comm, stream),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(d, d + 1, 2, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclAllGather(d + 2, d, 2, ncclFloat32, comm, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclReduceScatter(d, d + 2, 2, ncclFloat32, ncclSum, comm, stream),
            ncclInvalidArgument);
  EXPECT_EQ(ncclBroadcast(d, d, 1, ncclFloat32, 2, comm, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclSend(d, 1, ncclFloat32, -1, comm, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  ncclGroupStart();
  EXPECT_EQ(ncclSend(d, 1, ncclFloat32, 2, comm, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclSend(d, 1, ncclFloat32, 1, comm, stream), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(state(comm), ncclSuccess);  // nothing of the group was begun
}

TEST(NcclFailures, AnAbortEndsOnesOwnTasksAndTouchesNothing) {
  Ranks ranks(2);
  Floats data{1, 2}, after{0, 0};
  const auto reduce = [&](int r, ncclComm_t comm, cudaStream_t stream) {
    auto* value = &data[Ranks::index(r)];
    return ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, comm, stream);
  };
  ranks.run(reduce);
  EXPECT_EQ(reduce(0, ranks.comms[0], ranks.streams[0]), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(std::exchange(ranks.comms[0], nullptr)), ncclSuccess);
  ranks.streams[0].wait();
  EXPECT_EQ(reduce(1, ranks.comms[1], ranks.streams[1]), ncclSuccess);
  EXPECT_EQ(state(ranks.comms[1]), ncclSuccess);  // rank 1 cannot know of the abort
  EXPECT_EQ(cudaStreamQuery(ranks.streams[1]), cudaErrorNotReady);
  EXPECT_EQ(ncclCommAbort(std::exchange(ranks.comms[1], nullptr)), ncclSuccess);
  ranks.streams[1].wait();
  EXPECT_EQ(data, (Floats{3, 3}));
}

class Disagreement
    : public ::testing::TestWithParam<std::function<void(int, ncclComm_t, cudaStream_t, float*)>> {
};
INSTANTIATE_TEST_SUITE_P(
    Of, Disagreement,
    ::testing::Values(
        [](int r, ncclComm_t comm, cudaStream_t stream, float* data) {
          ncclAllReduce(data, data, r == 0 ? 1 : 2, ncclFloat32, ncclSum, comm, stream);
        },
        [](int r, ncclComm_t comm, cudaStream_t stream, float* data) {
          ncclAllReduce(data, data, 1, r == 0 ? ncclFloat32 : ncclInt32, ncclSum, comm, stream);
        },
        [](int r, ncclComm_t comm, cudaStream_t stream, float* data) {
          ncclAllReduce(data, data, 1, ncclFloat32, r == 0 ? ncclSum : ncclMax, comm, stream);
        },
        [](int r, ncclComm_t comm, cudaStream_t stream, float* data) {
          ncclBroadcast(data, data, 1, ncclFloat32, r, comm, stream);
        },
        [](int r, ncclComm_t comm, cudaStream_t stream, float* data) {
          if (r == 0)
            ncclSend(data, 2, ncclFloat32, 1, comm, stream);
          else
            ncclRecv(data, 1, ncclFloat32, 0, comm, stream);
        }));

TEST_P(Disagreement, IsAnErrorOnEveryRank) {
  Ranks ranks(2);
  std::vector<Floats> data{{1, 2}, {3, 4}};
  for (int r = 0; r < 2; ++r) {
    const auto i = Ranks::index(r);
    GetParam()(r, ranks.comms[i], ranks.streams[i], data[i].data());
  }
  // A state that is no longer in progress may be success, or already the error.
  for (auto comm : ranks.comms) settle(comm);
  for (auto comm : ranks.comms) {
    ncclResult_t result;
    while ((result = state(comm)) == ncclSuccess) std::this_thread::yield();
    EXPECT_EQ(result, ncclInvalidUsage);
  }
  float value = 0;
  EXPECT_EQ(
      ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, ranks.comms[0], ranks.streams[0]),
      ncclInvalidUsage);
  EXPECT_EQ(ncclCommDestroy(ranks.comms[0]), ncclInvalidUsage);
  for (auto& comm : ranks.comms) ncclCommAbort(std::exchange(comm, nullptr));
  for (auto& stream : ranks.streams) stream.wait();
  EXPECT_EQ(data, (std::vector<Floats>{{1, 2}, {3, 4}}));
}

TEST(NcclSplit, MakesGroupsByColorOrderedByKey) {
  Ranks ranks(4);
  const std::vector<int> colors{7, NCCL_SPLIT_NOCOLOR, 7, 7}, keys{2, 0, 1, 2};
  std::vector<ncclComm_t> children(4, ranks.comms[0]);
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(ncclCommSplit(ranks.comms[r], colors[r], keys[r], &children[r], nullptr),
              ncclInProgress);
    EXPECT_EQ(children[r], nullptr);
  }
  ranks.settle_all();
  EXPECT_EQ(children[1], nullptr);
  const std::vector<int> expected{1, -1, 0, 2};
  for (const std::size_t r : {0, 2, 3}) {
    int count = 0, rank = -1;
    EXPECT_EQ(ncclCommCount(children[r], &count), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(children[r], &rank), ncclSuccess);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(rank, expected[r]);
  }
  Floats data{1, 2, 4, 8};
  for (const std::size_t r : {0, 2, 3})  // like its parent, a child does not block
    EXPECT_EQ(
        ncclAllReduce(&data[r], &data[r], 1, ncclFloat32, ncclSum, children[r], ranks.streams[r]),
        ncclInProgress);
  for (const std::size_t r : {0, 2, 3}) EXPECT_EQ(settle(children[r]), ncclSuccess);
  for (auto& stream : ranks.streams) stream.wait();
  EXPECT_EQ(data, (Floats{13, 2, 13, 13}));
  for (const std::size_t r : {0, 2, 3}) EXPECT_EQ(ncclCommDestroy(children[r]), ncclSuccess);
}

TEST(NcclFinalize, IsInProgressUntilEveryRankIsQuiet) {
  Ranks ranks(2);
  EXPECT_EQ(ncclCommFinalize(ranks.comms[0]), ncclInProgress);
  EXPECT_EQ(state(ranks.comms[0]), ncclInProgress);
  EXPECT_EQ(ncclCommDestroy(ranks.comms[0]), ncclInvalidUsage);
  std::promise<void> open;
  enqueue(ranks.streams[1], [gate = open.get_future().share()] { gate.wait(); });
  float value = 1;
  ncclGroupStart();
  ncclSend(&value, 1, ncclFloat32, 1, ranks.comms[1], ranks.streams[1]);
  float got = 0;
  ncclRecv(&got, 1, ncclFloat32, 1, ranks.comms[1], ranks.streams[1]);
  ncclGroupEnd();
  EXPECT_EQ(settle(ranks.comms[1]), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(ranks.comms[1]), ncclInProgress);
  EXPECT_EQ(state(ranks.comms[0]), ncclInProgress);
  open.set_value();
  ranks.settle_all();
  EXPECT_EQ(got, 1);
  EXPECT_EQ(ncclCommFinalize(ranks.comms[0]), ncclInvalidUsage);
  for (auto& comm : ranks.comms)
    EXPECT_EQ(ncclCommDestroy(std::exchange(comm, nullptr)), ncclSuccess);
}

}  // namespace
