// A suite that compares the result of every collective with its closed form, exactly. Each test
// program names the kinds of communicators that it tests with INSTANTIATE_TEST_SUITE_P.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <tuple>

#include "tests/peer/ranks.h"

namespace ringside::testing {

inline constexpr std::int64_t sizes[] = {0, 1, 5, 1000, 100'000};

/// Small whole numbers: sums of them are exact in fp32.
inline float value_of(int rank, std::int64_t i) {
  return static_cast<float>((rank + 1) * 3 + i % 1013);
}

inline void expect_all(const Rank& r, const Tensor& array,
                       const std::function<float(std::int64_t)>& f) {
  const std::vector<float> values = r.values(array);
  for (std::int64_t i = 0; i < array.count(); ++i)
    ASSERT_EQ(values[static_cast<std::size_t>(i)], f(i))
        << "element " << i << " of " << array.count();
}

/// A kind of communicator, and a function that runs ranks which share a communicator of this kind.
struct Ranks {
  std::string name;
  std::function<void(int size, const std::function<void(const Rank&)>& body)> run;
};

class Collectives : public ::testing::TestWithParam<std::tuple<Ranks, int>> {
 protected:
  void run(const std::function<void(const Rank&)>& body) {
    std::get<0>(GetParam()).run(size(), body);
  }
  int size() const { return std::get<1>(GetParam()); }
};

/// Tests of the three collectives for which every algorithm has a program of its own.
class SumsAndGathers : public Collectives {};

/// The kind of communicator and the number of ranks: "shm_4".
inline std::string name_of_world(const ::testing::TestParamInfo<Collectives::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + std::to_string(std::get<1>(info.param));
}

TEST_P(SumsAndGathers, AllReduceGivesEveryRankTheSum) {
  run([](const Rank& r) {
    for (const std::int64_t n : sizes) {
      const Tensor array = r.floats(n, [&](std::int64_t i) { return value_of(r.rank, i); });
      r.comm.all_reduce(array)->wait();
      const float ranks = static_cast<float>(3 * r.size * (r.size + 1) / 2);
      expect_all(r, array, [&](std::int64_t i) {
        return ranks + static_cast<float>(r.size) * static_cast<float>(i % 1013);
      });
    }
  });
}

TEST_P(SumsAndGathers, ReduceScatterGivesEachRankItsPartOfTheSum) {
  run([](const Rank& r) {
    for (const std::int64_t n : sizes)
      for (const bool in_place : {false, true}) {
        const Tensor array =
            r.floats(n * r.size, [&](std::int64_t i) { return value_of(r.rank, i); });
        const Tensor part = in_place ? array.range(r.rank * n, n) : r.floats(n);
        r.comm.reduce_scatter(array, part)->wait();
        const float ranks = static_cast<float>(3 * r.size * (r.size + 1) / 2);
        expect_all(r, part, [&](std::int64_t i) {
          return ranks + static_cast<float>(r.size) * static_cast<float>((r.rank * n + i) % 1013);
        });
      }
  });
}

/// Fills the tensor with bytes that tell its elements and its `owner` apart.
inline void fill_bytes(const Rank& r, const Tensor& tensor, int owner) {
  std::vector<std::byte> bytes(tensor.bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(owner) * 31) % 251);
  r.device.write(tensor, bytes);
}
inline std::vector<std::byte> bytes_of(const Rank& r, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  r.device.read(tensor, bytes);
  return bytes;
}

TEST_P(Collectives, MoveElementsOfEveryDtypeAndSumFloatsAlone) {
  run([](const Rank& r) {
    for (const DType dtype : {DType::u8, DType::i32, DType::f64, DType::bf16, DType::f16}) {
      const auto make = [&](std::int64_t n) {
        return r.device.tensor({n}, MemoryKind::communication, dtype);
      };
      constexpr std::int64_t n = 37;
      const Tensor part = make(n), all = make(n * r.size), other = make(n);
      fill_bytes(r, part, r.rank);
      r.comm.all_gather(part, all)->wait();
      for (int from = 0; from < r.size; ++from) {
        fill_bytes(r, other, from);
        EXPECT_EQ(bytes_of(r, all.range(from * n, n)), bytes_of(r, other)) << name_of(dtype);
      }
      r.comm.broadcast(part, r.size - 1)->wait();
      EXPECT_EQ(bytes_of(r, part), bytes_of(r, other)) << name_of(dtype);
      const Tensor in = make(n * r.size), out = make(n * r.size);
      for (int to = 0; to < r.size; ++to) fill_bytes(r, in.range(to * n, n), r.rank + 10 * to);
      r.comm.all_to_all(in, out)->wait();
      for (int from = 0; from < r.size; ++from) {
        fill_bytes(r, other, from + 10 * r.rank);
        EXPECT_EQ(bytes_of(r, out.range(from * n, n)), bytes_of(r, other)) << name_of(dtype);
      }
      const bool floats = dtype == DType::bf16 || dtype == DType::f16;
      if (!floats) {
        EXPECT_THROW(r.comm.all_reduce(all), Error) << name_of(dtype);
        EXPECT_THROW(r.comm.reduce_scatter(all, part), Error) << name_of(dtype);
      }
    }
  });
}

TEST_P(SumsAndGathers, AllGatherJoinsThePartsInRankOrder) {
  run([](const Rank& r) {
    for (const std::int64_t n : sizes)
      for (const bool in_place : {false, true}) {
        const Tensor array = r.floats(n * r.size);
        const Tensor part = in_place ? array.range(r.rank * n, n) : r.floats(n);
        r.set(part, [&](std::int64_t i) { return value_of(r.rank, i); });
        r.comm.all_gather(part, array)->wait();
        expect_all(r, array,
                   [&](std::int64_t i) { return value_of(static_cast<int>(i / n), i % n); });
      }
  });
}

TEST_P(Collectives, BroadcastGivesEveryRankTheRootsArray) {
  run([](const Rank& r) {
    for (int root = 0; root < r.size; ++root)
      for (const std::int64_t n : sizes) {
        const Tensor array = r.floats(n, [&](std::int64_t i) { return value_of(r.rank, i); });
        r.comm.broadcast(array, root)->wait();
        expect_all(r, array, [&](std::int64_t i) { return value_of(root, i); });
      }
  });
}

TEST_P(Collectives, AllToAllTransposesParts) {
  run([](const Rank& r) {
    for (const std::int64_t n : sizes) {
      // Part j of rank i holds value_of(100 * i + j, .).
      const Tensor in = r.floats(n * r.size, [&](std::int64_t i) {
        return value_of(100 * r.rank + static_cast<int>(i / n), i % n);
      });
      const Tensor out = r.floats(n * r.size);
      r.comm.all_to_all(in, out)->wait();
      expect_all(r, out, [&](std::int64_t i) {
        return value_of(100 * static_cast<int>(i / n) + r.rank, i % n);
      });
    }
  });
}

TEST_P(Collectives, MessagesGoBothWaysAtOnceAndInOrder) {
  run([](const Rank& r) {
    const int next = (r.rank + 1) % r.size, previous = (r.rank + r.size - 1) % r.size;
    // Every rank posts several sends to each peer before it receives: if send() blocked, all ranks
    // would hang.
    std::vector<WorkPtr> works;
    std::vector<Tensor> received;
    for (const int peer : {next, previous})
      for (const std::int64_t n : sizes)
        works.push_back(r.comm.send(
            r.floats(n, [&](std::int64_t i) { return value_of(r.rank, i + n); }), peer));
    for (const int peer : {previous, next})
      for (const std::int64_t n : sizes) {
        received.push_back(r.floats(n));
        works.push_back(r.comm.recv(received.back(), peer));
      }
    for (const auto& work : works) work->wait();
    std::size_t k = 0;
    for (const int peer : {previous, next})
      for (const std::int64_t n : sizes)
        expect_all(r, received[k++], [&](std::int64_t i) { return value_of(peer, i + n); });
  });
}

TEST_P(Collectives, BarrierHoldsEveryoneUntilTheLastOneCame) {
  std::atomic<int> here{0};
  run([&](const Rank& r) {
    for (int round = 1; round <= 50; ++round) {
      ++here;
      r.comm.barrier();
      ASSERT_GE(here.load(), round * r.size);
    }
  });
}

TEST_P(Collectives, ManyOperationsInFlightRunInOrder) {
  run([](const Rank& r) {
    // Each all_reduce sums the result of the one before, so values grow by the number of ranks.
    const int rounds = 20;
    const Tensor array = r.floats(300, [](std::int64_t) { return 1.0F; });
    const Tensor gathered = r.floats(300 * r.size);
    std::vector<WorkPtr> works;
    for (int i = 0; i < rounds; ++i) {
      if (i < 5) works.push_back(r.comm.all_reduce(array));
      works.push_back(r.comm.all_gather(array, gathered));
    }
    for (const auto& work : works) work->wait();
    const float expected = static_cast<float>(std::pow(r.size, 5));
    expect_all(r, array, [&](std::int64_t) { return expected; });
    expect_all(r, gathered, [&](std::int64_t) { return expected; });
  });
}

/// Tests of communicators whose ranks send the fewest bytes that are possible.
class LeastTraffic : public Collectives {};

TEST_P(LeastTraffic, IsExact) {
  std::atomic<std::int64_t> sent{0}, received{0};
  const int p = size();
  run([&](const Rank& r) {
    const auto measure = [&](const std::function<void()>& operation) {
      const Traffic before = r.comm.traffic();
      operation();
      return r.comm.traffic() - before;
    };
    const std::int64_t n = 16 * 25;  // elements of each rank's part
    const std::int64_t whole = n * p * 4, others = (p - 1) * n * 4;
    const Tensor array = r.floats(n * p, [](std::int64_t) { return 1.0F; });
    const Tensor out = r.floats(n * p);
    const Tensor part = r.floats(n, [](std::int64_t) { return 1.0F; });

    Traffic t = measure([&] { r.comm.all_reduce(array)->wait(); });
    EXPECT_EQ(t.sent, 2 * others);
    EXPECT_EQ(t.received, 2 * others);
    t = measure([&] { r.comm.reduce_scatter(array, part)->wait(); });
    EXPECT_EQ(t.sent, others);
    EXPECT_EQ(t.received, others);
    t = measure([&] { r.comm.all_gather(part, array)->wait(); });
    EXPECT_EQ(t.sent, others);
    EXPECT_EQ(t.received, others);
    t = measure([&] { r.comm.all_to_all(array, out)->wait(); });
    EXPECT_EQ(t.sent, others);
    EXPECT_EQ(t.received, others);
    t = measure([&] { r.comm.broadcast(array, p - 1)->wait(); });
    EXPECT_EQ(t.sent, r.rank == p - 1 ? (p - 1) * whole : 0);
    EXPECT_EQ(t.received, r.rank == p - 1 ? 0 : whole);
    t = measure([&] {
      const WorkPtr send = r.comm.send(part, (r.rank + 1) % p);
      r.comm.recv(out.range(0, n), (r.rank + p - 1) % p)->wait();
      send->wait();
    });
    EXPECT_EQ(t.sent, p > 1 ? n * 4 : 0);
    EXPECT_EQ(t.received, p > 1 ? n * 4 : 0);
    t = measure([&] { r.comm.barrier(); });
    EXPECT_EQ(t.sent + t.received, 0);

    // Most numbers of ranks do not divide 1001 elements, so some ranks send more than others. But
    // all ranks together send exactly 2 * (p - 1) arrays.
    const Tensor uneven = r.floats(1001, [](std::int64_t) { return 1.0F; });
    t = measure([&] { r.comm.all_reduce(uneven)->wait(); });
    sent += t.sent;
    received += t.received;
  });
  EXPECT_EQ(sent.load(), 2 * (p - 1) * 1001 * 4);
  EXPECT_EQ(received.load(), sent.load());
}

TEST_P(Collectives, SplitMakesGroupsOrderedByKey) {
  run([](const Rank& r) {
    const auto group = r.comm.split(r.rank % 2, -r.rank);
    const int members = (r.size + (r.rank % 2 == 0 ? 1 : 0)) / 2;
    ASSERT_EQ(group->size(), members);
    EXPECT_EQ(group->rank(), members - 1 - r.rank / 2);
    const Tensor part =
        r.floats(3, [&](std::int64_t i) { return static_cast<float>(10 * r.rank + i); });
    const Tensor all = r.floats(3 * members);
    // An operation of the split group runs while an operation of all ranks is under way.
    const Tensor ones = r.floats(10, [](std::int64_t) { return 1.0F; });
    const WorkPtr whole = r.comm.all_reduce(ones);
    group->all_gather(part, all)->wait();
    whole->wait();
    expect_all(r, ones, [&](std::int64_t) { return static_cast<float>(r.size); });
    expect_all(r, all, [&](std::int64_t i) {
      const std::int64_t member = members - 1 - i / 3;
      return static_cast<float>(10 * (2 * member + r.rank % 2) + i % 3);
    });
    // A second split, and a split of its group: their names must not clash with the first group's.
    const auto again = r.comm.split(0, r.rank)->split(r.rank, 0);
    EXPECT_EQ(again->size(), 1);
  });
}

TEST_P(Collectives, WorkIsReadyWhenNobodyHasToWaitForItAnyMore) {
  run([](const Rank& r) {
    if (r.rank > 1) return;
    if (r.size == 1) {  // a single rank waits for no other
      const WorkPtr work = r.comm.all_reduce(r.floats(1));
      work->wait();
      r.device.synchronize();
      EXPECT_TRUE(work->ready());
      return;
    }
    const Tensor question = r.floats(1), answer = r.floats(1);
    if (r.rank == 1) {  // answers only after it is asked
      r.comm.recv(question, 0)->wait();
      r.comm.send(answer, 0)->wait();
      return;
    }
    const WorkPtr answered = r.comm.recv(answer, 1);
    EXPECT_FALSE(answered->ready());
    r.comm.send(question, 1)->wait();
    answered->wait();
    r.device.synchronize();
    EXPECT_TRUE(answered->ready());
  });
}

/// A test of communicators that takes long where every message wakes threads up.
class SmallOperations : public Collectives {};

TEST_P(SmallOperations, AThousandOfAllKinds) {
  run([](const Rank& r) {
    const int next = (r.rank + 1) % r.size, previous = (r.rank + r.size - 1) % r.size;
    const Tensor array = r.floats(r.size * 4), part = r.floats(4), in = r.floats(1);
    const Tensor out = r.floats(1);
    for (int i = 0; i < 1000; ++i) {
      r.set(array.range(0, 1), [&](std::int64_t) { return static_cast<float>(i); });
      r.set(out, [&](std::int64_t) { return static_cast<float>(i + r.rank); });
      const WorkPtr sent = r.comm.send(out, next);
      const WorkPtr received = r.comm.recv(in, previous);
      switch (i % 4) {
        case 0:
          r.comm.all_reduce(array)->wait();
          ASSERT_EQ(r.values(array)[0], static_cast<float>(i * r.size));
          break;
        case 1:
          r.comm.broadcast(array, i % r.size)->wait();
          ASSERT_EQ(r.values(array)[0], static_cast<float>(i));
          break;
        case 2:
          r.set(part, [&](std::int64_t) { return static_cast<float>(i * r.rank); });
          r.comm.all_gather(part, array)->wait();
          ASSERT_EQ(r.values(array).back(), static_cast<float>(i * (r.size - 1)));
          break;
        default:
          r.comm.barrier();
      }
      received->wait();
      ASSERT_EQ(r.values(in)[0], static_cast<float>(i + previous));
      sent->wait();
    }
  });
}

}  // namespace ringside::testing
