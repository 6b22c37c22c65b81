// Collectives of ranks on one host, and of simulated ranks.
#include "peer/comm/algorithms/algorithms.h"
#include "tests/peer/collectives_suite.h"
#include "tests/peer/sim_ranks.h"

namespace ringside::testing {
namespace {

const Ranks kinds[] = {
    {"shm", [](int size, const auto& body) { run_ranks(size, body); }},
    {"sim_messages",
     [](int size, const auto& body) { run_simulated(rings_as_messages(size), size, body); }},
    {"sim_flows",
     [](int size, const auto& body) { run_simulated(rings_as_flows(size), size, body); }},
    {"sim_machines", [](int size, const auto& body) { run_simulated(two_machines(), size, body); }},
    {"sim_one_pass", [](int size, const auto& body) { run_simulated(one_pass(), size, body); }},
    {"sim_hosts", [](int size, const auto& body) { run_simulated(two_hosts(1), size, body); }},
    {"sim_hosts_of_two",
     [](int size, const auto& body) { run_simulated(two_hosts(2), size, body); }}};

const auto kinds_and_sizes =
    ::testing::Combine(::testing::ValuesIn(kinds), ::testing::Values(1, 2, 3, 4, 7));

INSTANTIATE_TEST_SUITE_P(Worlds, Collectives, kinds_and_sizes, name_of_world);
INSTANTIATE_TEST_SUITE_P(Worlds, SmallOperations, kinds_and_sizes, name_of_world);
INSTANTIATE_TEST_SUITE_P(Worlds, SumsAndGathers, kinds_and_sizes, name_of_world);
INSTANTIATE_TEST_SUITE_P(Worlds, LeastTraffic, kinds_and_sizes, name_of_world);

/// Ranks that use an algorithm, through shared memory and between simulated GPUs of one machine.
std::vector<Ranks> with_algorithm(Algorithm algorithm) {
  const std::string name = name_in_tests(name_of(algorithm));
  return {{"shm_" + name, [=](int size, const auto& body) { run_ranks(size, body, algorithm); }},
          {"sim_" + name, [=](int size, const auto& body) {
             Simulated ranks = rings_as_messages(size);
             ranks.algorithm = algorithm;
             run_simulated(ranks, size, body);
           }}};
}
std::vector<Ranks> with_all_algorithms() {
  std::vector<Ranks> out;
  for (const peer::AlgorithmRow& row : peer::algorithm_rows())
    for (const Ranks& kind : with_algorithm(row.algorithm)) out.push_back(kind);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, SumsAndGathers,
                         ::testing::Combine(::testing::ValuesIn(with_all_algorithms()),
                                            ::testing::Values(2, 3, 4, 5, 7, 8)),
                         name_of_world);
/// All other operations go the same way under every algorithm.
const auto trees = ::testing::Combine(::testing::ValuesIn(with_algorithm(Algorithm::tree)),
                                      ::testing::Values(2, 3, 8));
INSTANTIATE_TEST_SUITE_P(Algorithms, Collectives, trees, name_of_world);
INSTANTIATE_TEST_SUITE_P(Algorithms, SmallOperations, trees, name_of_world);

/// Tests of promises of all communicators of this file, but not of NCCL.
class OrderedCollectives : public Collectives {};
INSTANTIATE_TEST_SUITE_P(Worlds, OrderedCollectives, kinds_and_sizes, name_of_world);

TEST_P(OrderedCollectives, SumsRunInRankOrder) {
  run([](const Rank& r) {
    const auto value = [](int rank, std::int64_t i) {
      const float large = i % 2 == 0 ? 1e8F : 3e7F;
      return rank % 3 == 0 ? large : rank % 3 == 1 ? 1.0F + static_cast<float>(i) : -large;
    };
    const std::int64_t n = 777;
    const Tensor array = r.floats(n * r.size, [&](std::int64_t i) { return value(r.rank, i); });
    const Tensor part = r.floats(n);
    r.comm.reduce_scatter(array, part)->wait();
    r.comm.all_reduce(array)->wait();
    const auto sequential = [&](std::int64_t i) {
      float sum = value(0, i);
      for (int k = 1; k < r.size; ++k) sum += value(k, i);
      return sum;
    };
    expect_all(r, array, sequential);
    expect_all(r, part, [&](std::int64_t i) { return sequential(r.rank * n + i); });
  });
}

TEST_P(OrderedCollectives, CountTheirBytes) {
  run([](const Rank& r) {
    r.comm.all_reduce(r.floats(64, [](std::int64_t) { return 1.0F; }))->wait();
    EXPECT_FALSE(r.comm.traffic().computed);
  });
}

TEST(CollectivesBesideCompute, RunWhileTheCallersWork) {
  run_ranks(2, [](const Rank& r) {
    const Tensor array = r.floats(1 << 20, [](std::int64_t) { return 1.0F; });
    const WorkPtr work = r.comm.all_reduce(array);
    // The operation ends although no thread waits for it, and its span has the time of its end.
    while (r.comm.traffic().sent == 0) std::this_thread::yield();
    work->wait();
    const Work::Span span = work->span();
    EXPECT_GT(r.device.seconds(span.begin, span.end), 0);
    expect_all(r, array, [](std::int64_t) { return 2.0F; });
  });
}

}  // namespace
}  // namespace ringside::testing
