// Collectives of ranks on several hosts, over Gloo.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/comm/window.h"
#include "peer/comm/algorithms/algorithms.h"
#include "tests/hosts/ranks.h"
#include "tests/peer/collectives_suite.h"

namespace ringside::testing {
namespace {

using HostsOfRanks = std::vector<int>;

const HostsOfRanks worlds[] = {{0, 1}, {0, 0, 1, 1}, {0, 0, 1}, {0, 1, 2, 3}, {0, 1, 0, 1}};

std::tuple<Ranks, int> on_hosts(const HostsOfRanks& hosts,
                                Algorithm algorithm = Algorithm::native) {
  std::string name = name_in_tests(name_of(algorithm)) + "_on";
  for (const int host : hosts) name += "_" + std::to_string(host);
  return {{name, [=](int, const auto& body) { run_hosts(hosts, body, algorithm); }},
          static_cast<int>(hosts.size())};
}
std::vector<std::tuple<Ranks, int>> all_worlds() {
  std::vector<std::tuple<Ranks, int>> out;
  for (const HostsOfRanks& hosts : worlds) out.push_back(on_hosts(hosts));
  return out;
}
std::vector<std::tuple<Ranks, int>> all_algorithms() {
  std::vector<std::tuple<Ranks, int>> out;
  for (const peer::AlgorithmRow& row : peer::algorithm_rows())
    out.push_back(on_hosts({0, 0, 1, 1}, row.algorithm));
  for (const HostsOfRanks& hosts : {HostsOfRanks{0, 1}, {0, 1, 2}, {0, 0, 1, 1}})
    out.push_back(on_hosts(hosts, Algorithm::library));
  return out;
}

INSTANTIATE_TEST_SUITE_P(Hosts, Collectives, ::testing::ValuesIn(all_worlds()), name_of_world);
INSTANTIATE_TEST_SUITE_P(Hosts, SumsAndGathers, ::testing::ValuesIn(all_worlds()), name_of_world);
INSTANTIATE_TEST_SUITE_P(Hosts, SmallOperations, ::testing::Values(on_hosts({0, 0, 1})),
                         name_of_world);
INSTANTIATE_TEST_SUITE_P(Hosts, LeastTraffic,
                         ::testing::Values(on_hosts({0, 1, 0}, Algorithm::ring)), name_of_world);
INSTANTIATE_TEST_SUITE_P(HostsWithAlgorithm, SumsAndGathers, ::testing::ValuesIn(all_algorithms()),
                         name_of_world);

/// The result of a rank after an operation, bit by bit.
using Bits = std::vector<std::byte>;

/// Values of which sums in another order have other bits.
Tensor uneven_values(const Rank& r, std::int64_t count, DType dtype) {
  const Tensor out = r.device.tensor({count}, MemoryKind::communication, dtype);
  constexpr int period = 997;
  std::vector<float> values;
  for (int i = 0; i < period; ++i)
    values.push_back((r.rank % 2 == 0 ? 1.0F : -0.75F) *
                     (1.0F + static_cast<float>((i * 37 + r.rank * 101) % period) / 331.0F) *
                     std::ldexp(1.0F, (i + r.rank) % 9 - 4));
  auto* const first = out.data<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = values[static_cast<std::size_t>(i % period)];
    if (dtype == DType::f32)
      reinterpret_cast<float*>(first)[i] = value;
    else if (dtype == DType::bf16)
      reinterpret_cast<bf16*>(first)[i] = to_bf16(value);
    else
      reinterpret_cast<fp16*>(first)[i] = to_fp16(value);
  }
  return out;
}

/// The bits of every rank after sums of several sizes, the largest of several segments.
std::vector<std::vector<Bits>> sums_of(
    int size, const std::function<void(const std::function<void(const Rank&)>&)>& run) {
  std::vector<std::vector<Bits>> out(static_cast<std::size_t>(size));
  run([&](const Rank& r) {
    auto& own = out[static_cast<std::size_t>(r.rank)];
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const std::int64_t n : {0, 1, 17, 1001, 300'001}) {
        if (n > 1001 && dtype != DType::f32) continue;
        const Tensor array = uneven_values(r, n, dtype);
        r.comm.all_reduce(array)->wait();
        own.push_back(bytes_of(r, array));
        const Tensor parts = uneven_values(r, n * r.size, dtype);
        const Tensor part = r.device.tensor({n}, MemoryKind::communication, dtype);
        const Bits before = bytes_of(r, parts);
        r.comm.reduce_scatter(parts, part)->wait();
        own.push_back(bytes_of(r, part));
        EXPECT_TRUE(bytes_of(r, parts) == before);
        r.comm.reduce_scatter(parts, parts.range(r.rank * n, n))->wait();
        EXPECT_TRUE(bytes_of(r, parts.range(r.rank * n, n)) == own.back());
      }
  });
  return out;
}

TEST(HostsHaveTheBits, OfRanksThatShareAMemory) {
  std::map<int, std::vector<std::vector<Bits>>> expected;
  std::vector<HostsOfRanks> all(std::begin(worlds), std::end(worlds));
  all.push_back({0, 0, 1, 1, 2, 2});
  all.push_back({2, 2, 0, 1, 1});
  for (const HostsOfRanks& hosts : all) {
    const auto size = static_cast<int>(hosts.size());
    if (!expected.contains(size))
      expected[size] = sums_of(size, [&](const auto& body) { run_ranks(size, body); });
    EXPECT_TRUE(sums_of(size, [&](const auto& body) { run_hosts(hosts, body); }) == expected[size])
        << ::testing::PrintToString(hosts);
  }
}

TEST(HostsHaveTheBits, OfLongArrays) {
  // Two ranks send all of one segment (262,144 values) each way, and halves of more than that; the
  // longest array is longer than all that is on its way at a time.
  for (const std::int64_t count : {262'144, 262'150, 3'000'000})
    for (const HostsOfRanks& hosts : {HostsOfRanks{0, 1}, {0, 0, 1, 2, 2}})
      run_hosts(hosts, [count](const Rank& r) {
        const std::int64_t n = count / r.size * r.size;
        const Tensor array = r.floats(n), part = r.floats(n / r.size);
        for (std::int64_t i = 0; i < n; ++i)
          array.data<float>()[i] = static_cast<float>(r.rank + i % 8191);
        const auto sum = [&](std::int64_t i) {
          return static_cast<float>(r.size * (r.size - 1) / 2 + r.size * (i % 8191));
        };
        std::int64_t wrong = 0;
        r.comm.reduce_scatter(array, part)->wait();
        for (std::int64_t i = 0; i < part.count(); ++i)
          wrong += part.data<float>()[i] != sum(r.rank * part.count() + i);
        r.comm.all_reduce(array)->wait();
        for (std::int64_t i = 0; i < n; ++i) wrong += array.data<float>()[i] != sum(i);
        EXPECT_EQ(wrong, 0) << count;
      });
}

/// The bytes that each rank sent and received in each operation on arrays of `count` fp32 elements.
std::vector<std::map<std::string, Traffic>> traffic_on(const HostsOfRanks& hosts,
                                                       std::int64_t count) {
  std::vector<std::map<std::string, Traffic>> out(hosts.size());
  run_hosts(hosts, [&](const Rank& r) {
    const auto measure = [&](const char* name, const std::function<void()>& operation) {
      const Traffic before = r.comm.traffic();
      operation();
      out[static_cast<std::size_t>(r.rank)][name] = r.comm.traffic() - before;
    };
    const Tensor array = r.floats(count, [](std::int64_t) { return 1.0F; });
    const Tensor other = r.floats(count), part = r.floats(count / r.size);
    measure("all_reduce", [&] { r.comm.all_reduce(array)->wait(); });
    measure("reduce_scatter", [&] { r.comm.reduce_scatter(array, part)->wait(); });
    measure("all_gather", [&] { r.comm.all_gather(part, array)->wait(); });
    measure("all_to_all", [&] { r.comm.all_to_all(array, other)->wait(); });
    measure("broadcast", [&] { r.comm.broadcast(array, 0)->wait(); });
    measure("barrier", [&] { r.comm.barrier(); });
    measure("message", [&] {
      const WorkPtr sent = r.comm.send(part, (r.rank + 1) % r.size);
      r.comm.recv(other.range(0, part.count()), (r.rank + r.size - 1) % r.size)->wait();
      sent->wait();
    });
  });
  return out;
}

TEST(HostsTraffic, OfTwoHostsIsThatOfOne) {
  for (const HostsOfRanks& hosts : {HostsOfRanks{0, 1}, HostsOfRanks{0, 0, 1, 1}}) {
    const auto p = static_cast<std::int64_t>(hosts.size());
    const std::int64_t count = 16 * 25 * p, bytes = 4 * count, others = bytes / p * (p - 1);
    const auto traffic = traffic_on(hosts, count);
    for (const auto& rank : traffic) {
      EXPECT_EQ(rank.at("all_reduce").sent, 2 * others);
      EXPECT_EQ(rank.at("all_reduce").received, 2 * others);
      EXPECT_EQ(rank.at("all_gather").sent, others);
      EXPECT_EQ(rank.at("all_gather").received, others);
      EXPECT_EQ(rank.at("all_to_all").sent, others);
      EXPECT_EQ(rank.at("all_to_all").received, others);
      EXPECT_EQ(rank.at("message").sent, bytes / p);
      EXPECT_EQ(rank.at("message").received, bytes / p);
      EXPECT_EQ(rank.at("barrier").sent + rank.at("barrier").received, 0);
      EXPECT_FALSE(rank.at("all_reduce").computed);
    }
  }
}

TEST(HostsTraffic, OfAllRanksHasClosedForms) {
  for (const HostsOfRanks& hosts : worlds) {
    const auto p = static_cast<std::int64_t>(hosts.size());
    const std::int64_t count = 1020 * p, bytes = 4 * count;
    std::map<std::string, Traffic> sum;
    for (const auto& rank : traffic_on(hosts, count))
      for (const auto& [name, traffic] : rank) sum[name] = sum[name] + traffic;
    const auto expect = [&](const char* name, std::int64_t all) {
      EXPECT_EQ(sum[name].sent, all) << name << " " << ::testing::PrintToString(hosts);
      EXPECT_EQ(sum[name].received, all) << name << " " << ::testing::PrintToString(hosts);
    };
    expect("all_reduce", 2 * (p - 1) * bytes);
    expect("all_gather", (p - 1) * bytes);
    expect("all_to_all", (p - 1) * bytes);
    expect("broadcast", (p - 1) * bytes);
    expect("message", bytes);
    expect("barrier", 0);
    // In a chain of two hosts prefix sums of all parts go up, and the first host's come back down.
    const bool chain = hosts == HostsOfRanks{0, 0, 1, 1} || hosts == HostsOfRanks{0, 0, 1};
    const std::int64_t here = 2, delivered = hosts.size() == 3 ? 1 : 0;
    expect("reduce_scatter",
           chain ? (p - here) * bytes + bytes + here * bytes / p + delivered * bytes / p
                 : (p - 1) * bytes);
  }
}

TEST(HostsTraffic, OfALibraryIsComputed) {
  const auto body = [](const Rank& r) {
    r.comm.broadcast(r.floats(12), 0)->wait();
    EXPECT_FALSE(r.comm.traffic().computed);
    const std::int64_t before = r.comm.traffic().sent;
    r.comm.all_reduce(r.floats(12))->wait();
    EXPECT_TRUE(r.comm.traffic().computed);
    EXPECT_EQ(r.comm.traffic().sent - before, 2 * 12 * 4 * 2 / 3);
  };
  run_hosts({0, 1, 2}, body, Algorithm::library);
}

TEST(HostsOfOneGroup, MayAllBeOne) {
  run_hosts({5, 5}, [](const Rank& r) {
    EXPECT_TRUE(r.comm.share(4, MemoryKind::parameter, DType::f32));  // of shared memory alone
  });
  run_hosts({5, 6}, [](const Rank& r) {
    EXPECT_FALSE(r.comm.share(4, MemoryKind::parameter, DType::f32));
    EXPECT_THROW(r.comm.expose(r.floats(1)), Error);
  });
}

}  // namespace
}  // namespace ringside::testing
