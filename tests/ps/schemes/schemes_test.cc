#include <gtest/gtest.h>

#include "core/scheme/single.h"
#include "ps/protocol/greeting.h"
#include "ps/protocol/partition.h"
#include "ps/transport/zmq/keys.h"
#include "ps/transport/zmq/transport.h"
#include "tests/ps/makers.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::ps {
namespace {

using testing::expect_run_of;
using testing::maker;
using testing::RankResult;
using testing::reference;
using testing::run_ranks;
using testing::server_of;
using testing::tiny_plan;

template <class Options>
std::vector<RankResult> run_all(const RunPlan& plan, const Options& options) {
  check(options, plan);
  return run_ranks(plan, maker(options), server_of(options));
}

struct SchemeCase {
  int world = 1, servers = 1;
  Placement placement = Placement::dedicated;
  TransportKind transport = TransportKind::ipc;
  std::int64_t micro_batches = 1;
};
void PrintTo(const SchemeCase& c, std::ostream* out) {
  *out << c.world << " workers, " << c.servers << " servers " << name_of(c.placement) << ", "
       << name_of(c.transport) << ", " << c.micro_batches << " micro-batches";
}

class PsTest : public ::testing::TestWithParam<SchemeCase> {};
INSTANTIATE_TEST_SUITE_P(
    Runs, PsTest,
    ::testing::Values(SchemeCase{1, 1}, SchemeCase{1, 1, Placement::colocated},
                      SchemeCase{2, 1, Placement::colocated}, SchemeCase{2, 2},
                      SchemeCase{2, 2, Placement::colocated, TransportKind::ipc, 2},
                      SchemeCase{2, 3, Placement::dedicated, TransportKind::tcp, 3},
                      SchemeCase{3, 2}, SchemeCase{3, 3, Placement::colocated, TransportKind::tcp},
                      SchemeCase{4, 2, Placement::colocated},
                      SchemeCase{4, 6, Placement::dedicated, TransportKind::ipc},
                      SchemeCase{1, 1, Placement::dedicated, TransportKind::shm},
                      SchemeCase{1, 1, Placement::colocated, TransportKind::shm},
                      SchemeCase{2, 2, Placement::colocated, TransportKind::shm, 2},
                      SchemeCase{2, 3, Placement::dedicated, TransportKind::shm, 3},
                      SchemeCase{3, 3, Placement::colocated, TransportKind::shm},
                      SchemeCase{4, 2, Placement::colocated, TransportKind::automatic},
                      SchemeCase{4, 6, Placement::dedicated, TransportKind::shm},
                      SchemeCase{1, 0, Placement::mixed, TransportKind::shm},
                      SchemeCase{1, 1, Placement::mixed, TransportKind::ipc},
                      SchemeCase{2, 1, Placement::mixed, TransportKind::shm, 2},
                      SchemeCase{3, 1, Placement::mixed, TransportKind::tcp},
                      SchemeCase{3, 3, Placement::mixed, TransportKind::shm},
                      SchemeCase{3, 2, Placement::mixed, TransportKind::ipc, 2}));

TEST_P(PsTest, EndsWithTheBitsOfASequentialSum) {
  const SchemeCase& c = GetParam();
  const RunPlan plan =
      tiny_plan(c.world, count_servers(c.placement, c.servers, c.world), c.micro_batches);
  expect_run_of(
      reference(c.world, c.micro_batches), plan,
      run_all(plan,
              PsOptions{.servers = c.servers, .placement = c.placement, .transport = c.transport}));
}

/// Makes the model so large that the bytes of headers hardly matter.
RunPlan larger(RunPlan plan) {
  plan.model.width = 120;
  plan.model.context = 4;
  plan.model.vocabulary = 64;
  plan.train.steps = 3;
  return plan;
}

/// Many small parts: windows fill, and urgent parts overtake others.
TEST(Schemes, PartsOfAnySizeEndWithTheSameBits) {
  const auto hashes = [](double partition_mb, bool colocated, std::int64_t micro_batches) {
    RunPlan plan = larger(tiny_plan(3, 2, colocated, micro_batches));
    plan.train.reduce = Reduce::every;
    const auto results = run_all(
        plan, PsOptions{.placement = colocated ? Placement::colocated : Placement::dedicated,
                        .partition_mb = partition_mb});
    for (const RankResult& result : results) EXPECT_EQ(result.error, "");
    return results[0].worker.parameter_hashes;
  };
  for (const bool colocated : {false, true}) {
    const auto expected = hashes(64, colocated, 2);
    ASSERT_EQ(expected.size(), 1u);
    EXPECT_EQ(hashes(0.001, colocated, 2), expected);
    EXPECT_EQ(hashes(0.0375, colocated, 2), expected);
  }
}

TEST(Schemes, SeveralThreadsMoveBytesAndTheBitsStay) {
  const RunPlan plan = tiny_plan(3, 2, false, 2);
  expect_run_of(reference(3, 2), plan,
                run_all(plan, PsOptions{.transport = TransportKind::tcp, .io_threads = 3}));
}

class DpTest : public ::testing::TestWithParam<SchemeCase> {};
INSTANTIATE_TEST_SUITE_P(
    Runs, DpTest,
    ::testing::Values(SchemeCase{1, 1}, SchemeCase{1, 1, Placement::colocated},
                      SchemeCase{2, 1, Placement::colocated},
                      SchemeCase{2, 1, Placement::dedicated, TransportKind::tcp},
                      SchemeCase{2, 1, Placement::colocated, TransportKind::tcp, 3},
                      SchemeCase{3, 1, Placement::colocated},
                      SchemeCase{3, 1, Placement::dedicated, TransportKind::ipc, 2},
                      SchemeCase{4, 1, Placement::colocated, TransportKind::ipc, 2},
                      SchemeCase{1, 1, Placement::colocated, TransportKind::shm},
                      SchemeCase{2, 1, Placement::dedicated, TransportKind::shm},
                      SchemeCase{2, 1, Placement::colocated, TransportKind::shm, 3},
                      SchemeCase{3, 1, Placement::dedicated, TransportKind::shm, 2},
                      SchemeCase{4, 1, Placement::colocated, TransportKind::shm, 2}));

TEST_P(DpTest, EndsWithTheBitsOfASequentialSum) {
  const SchemeCase& c = GetParam();
  const RunPlan plan =
      tiny_plan(c.world, c.servers, c.placement == Placement::colocated, c.micro_batches);
  expect_run_of(reference(c.world, c.micro_batches), plan,
                run_all(plan, DpOptions{.placement = c.placement, .transport = c.transport}));
}

/// Properties that hold for every transport.
class OverTransports : public ::testing::TestWithParam<TransportKind> {};
INSTANTIATE_TEST_SUITE_P(Runs, OverTransports,
                         ::testing::Values(TransportKind::shm, TransportKind::ipc),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Schemes, EvaluateWithTheParametersOfTheStep) {
  const RankRecord expected = reference(2, 1, 2);
  ASSERT_EQ(expected.evaluations.size(), 2u);
  RunPlan plan = tiny_plan(2, 1, true, 1);
  plan.train.evaluate_every = 2;
  for (const auto& results :
       {run_all(plan, DpOptions{}),
        run_all(plan, PsOptions{.servers = 1, .placement = Placement::colocated})}) {
    expect_run_of(expected, plan, results);
    for (std::size_t e = 0; e < 2; ++e)
      for (std::size_t w = 0; w < 2; ++w) {
        ASSERT_EQ(results[w].worker.evaluations.size(), 2u);
        const auto& shares = results[w].worker.evaluations[e].shares;
        ASSERT_EQ(shares.size(), 1u);
        EXPECT_EQ(shares[0].loss, expected.evaluations[e].shares.at(w).loss);
      }
  }
}

StepShape shape_of(const RunPlan& plan, const RankRecord& record) {
  return {.world = plan.world,
          .servers = plan.servers,
          .parameter_bytes = 4 * record.parameters,
          .first_samples = plan.train.global_batch / plan.world,
          .other_samples = plan.train.global_batch / plan.world,
          .samples = plan.train.global_batch,
          .input_bytes = 4 * plan.model.context,
          .logit_bytes = 4 * plan.model.vocabulary};
}

void expect_within_a_percent_above(double bytes, double closed_form) {
  EXPECT_GE(bytes, closed_form);
  EXPECT_LE(bytes, 1.01 * closed_form);
}

TEST_P(OverTransports, TrafficOfPsIsTheGradientFromWorkersAndTheValuesFromServers) {
  const RunPlan plan = larger(tiny_plan(3, 2, false, 1));
  const auto results = run_all(plan, PsOptions{.transport = GetParam()});
  const double parameters = 4.0 * static_cast<double>(results[0].worker.parameters);
  double by_servers = 0;
  for (std::size_t r = 0; r < results.size(); ++r) {
    EXPECT_EQ(results[r].error, "");
    if (r < 3)
      expect_within_a_percent_above(results[r].worker.bytes_sent_per_step, parameters);
    else
      by_servers += results[r].server.bytes_sent_per_step;
  }
  expect_within_a_percent_above(by_servers, 3 * parameters);
  EXPECT_DOUBLE_EQ(ps_minimum_bytes(shape_of(plan, results[0].worker), PsOptions{}),
                   1.5 * parameters);
}

TEST_P(OverTransports, TrafficOfColocatedPsLeavesOutWhatStaysInTheRank) {
  const RunPlan plan = larger(tiny_plan(2, 2, true, 1));
  const PsOptions options{.placement = Placement::colocated, .transport = GetParam()};
  const auto results = run_all(plan, options);
  double all = 0;
  for (const RankResult& r : results)
    all += r.worker.bytes_sent_per_step + r.server.bytes_sent_per_step;
  const double minimum = ps_minimum_bytes(shape_of(plan, results[0].worker), options);
  expect_within_a_percent_above(all, 2 * minimum);
}

/// Every rank of a mix sends as much as any other, and as the closed form says.
TEST_P(OverTransports, TrafficOfPsMixedIsTheSameOnAllRanks) {
  for (const auto& [world, dedicated] : {std::pair{2, 1}, {3, 1}, {3, 2}}) {
    const PsOptions options{.servers = dedicated,
                            .placement = Placement::mixed,
                            .transport = GetParam(),
                            .partition_mb = 0.001};
    const RunPlan plan = larger(tiny_plan(world, count_servers(options, world), 1));
    const auto results = run_all(plan, options);
    const StepShape shape = shape_of(plan, results[0].worker);
    const double n = world, k = dedicated;
    const double minimum = ps_minimum_bytes(shape, options);
    EXPECT_NEAR(
        minimum,
        2 * n * (n - 1) / (n * n + k * n - 2 * k) * static_cast<double>(shape.parameter_bytes),
        1e-6 * minimum);
    for (const RankResult& rank : results) {
      EXPECT_EQ(rank.error, "");
      // Headers are a tenth of so small parts.
      const double sent = rank.worker.bytes_sent_per_step + rank.server.bytes_sent_per_step;
      EXPECT_GE(sent, 0.98 * minimum) << world << " workers, " << dedicated << " servers";
      EXPECT_LE(sent, 1.15 * minimum) << world << " workers, " << dedicated << " servers";
    }
  }
}

TEST_P(OverTransports, TrafficOfTheDpMasterIsAboutWorldTimesThatOfAWorker) {
  for (const bool colocated : {false, true}) {
    const RunPlan plan = larger(tiny_plan(3, 1, colocated, 1));
    const DpOptions options{.placement = colocated ? Placement::colocated : Placement::dedicated,
                            .transport = GetParam()};
    const auto results = run_all(plan, options);
    const StepShape shape = shape_of(plan, results[0].worker);
    const RankRecord& master = results[colocated ? 0 : 3].server;
    expect_within_a_percent_above(master.bytes_sent_per_step, dp_minimum_bytes(shape, options));
    const auto worker =
        static_cast<double>(shape.parameter_bytes + shape.other_samples * shape.logit_bytes);
    expect_within_a_percent_above(results[1].worker.bytes_sent_per_step, worker);
    if (colocated) {
      EXPECT_EQ(results[0].worker.bytes_sent_per_step, 0);
    }
  }
}

TEST(MinimumBytes, OfColocatedPsIsThatOfARingWithAServerForEachWorker) {
  const PsOptions colocated{.placement = Placement::colocated};
  EXPECT_DOUBLE_EQ(ps_minimum_bytes({.world = 4, .servers = 4, .parameter_bytes = 100}, colocated),
                   2 * 3 / 4.0 * 100);
  EXPECT_DOUBLE_EQ(ps_minimum_bytes({.world = 3, .servers = 1, .parameter_bytes = 100}, colocated),
                   200);
  EXPECT_DOUBLE_EQ(ps_minimum_bytes({.world = 1, .servers = 1, .parameter_bytes = 100}, colocated),
                   0);
}

TEST(MinimumBytes, OfPsMixedIsThatOfTheBusiestRank) {
  const auto minimum = [](int world, std::int64_t servers, std::int64_t reductions) {
    const StepShape shape{.world = world, .reductions = reductions, .parameter_bytes = 1200};
    return ps_minimum_bytes(shape, {.servers = servers, .placement = Placement::mixed});
  };
  EXPECT_DOUBLE_EQ(minimum(4, 0, 1), 2 * 3 / 4.0 * 1200) << "colocated";
  EXPECT_DOUBLE_EQ(minimum(4, 4, 1), 1200) << "dedicated";
  EXPECT_DOUBLE_EQ(minimum(2, 1, 1), 1200) << "each keeps 1/2, 1/4 and 1/4";
  // Own servers keep 1/4: 2 pushes of the other 3/4, and the values of 1/4 for the other worker.
  EXPECT_DOUBLE_EQ(minimum(2, 1, 2), 2 * 900 + 300);
  EXPECT_DOUBLE_EQ(minimum(1, 0, 1), 0);
  EXPECT_DOUBLE_EQ(minimum(1, 1, 1), 0) << "nothing need leave a lone worker";
}

TEST(Memory, TheMasterOfDpHoldsMoreThanItsWorkers) {
  const RunPlan plan = larger(tiny_plan(2, 1, true, 1));
  const auto results = run_all(plan, DpOptions{});
  const auto held = [&](std::size_t r, MemoryKind kind) { return results[r].worker.at_peak[kind]; };
  EXPECT_GE(held(0, MemoryKind::parameter), 2 * held(1, MemoryKind::parameter));
  EXPECT_EQ(held(1, MemoryKind::optimizer), 0);
  EXPECT_EQ(held(0, MemoryKind::optimizer), 8 * results[0].worker.parameters);
}

TEST(Records, WorkersHaveNoOptimizerTimeAndServersDo) {
  const RunPlan plan = larger(tiny_plan(2, 2, false, 1));
  const auto results = run_all(plan, PsOptions{});
  for (const StepTime& step : results[0].worker.steps) {
    EXPECT_EQ(step.by_activity[static_cast<std::size_t>(Activity::optimizer)], 0);
    EXPECT_GT(step.by_activity[static_cast<std::size_t>(Activity::communication)], 0);
  }
  EXPECT_GT(results[2].server.serving_optimizer_ms, 0);
  EXPECT_EQ(results[2].server.parameters, results[0].worker.parameters);
}

/// The kinds of the messages that the master receives from worker 1, which pushes the gradient of
/// one unit and then calls visit_parameters(). A kind that occurs several times in a row is listed
/// once, and signs of life are left out.
std::vector<Kind> heard_of_a_visit() {
  const RunPlan plan = tiny_plan(2, 1, false, 1);
  const auto device = make_cpu_device(1);
  MemoryStore store;
  Timeline timeline(*device);
  const auto transport = testing::links_to_servers().transport<Transport>();
  const Connection listening =
      transport->listen({plan, 2, *device, store, timeline}, {.timeout_s = plan.train.timeout_s});
  auto worker = std::async(std::launch::async, [&] {
    const auto own = make_cpu_device(1);
    Model model = make_mlp(plan.model, *own);
    Timeline own_timeline(*own);
    const auto scheme =
        make_dp({plan, 1, *own, store, own_timeline, nullptr, {}, testing::links_to_servers()}, {});
    scheme->attach(model);
    scheme->before_backward(0, {});
    scheme->after_backward(0, {});
    scheme->step({});
    scheme->visit_parameters([](int, const Unit&, const Tensor&) {});
  });
  std::vector<Kind> kinds;
  while (kinds.empty() || kinds.back() != Kind::done) {
    const auto received = listening.channel->receive(plan.train.timeout_s);
    if (!received) break;
    const Header& header = received->message.header;
    if (header.kind != Kind::alive && header.kind != Kind::hello &&
        (kinds.empty() || header.kind != kinds.back()))
      kinds.push_back(header.kind);
    if (header.kind == Kind::pull)
      listening.channel->send(
          1, {reply_to(header), {device->tensor({header.count}, MemoryKind::communication)}});
  }
  worker.get();
  return kinds;
}

TEST(Dp, AWorkerLeavesWhenTheMasterHasHandledItsLastGradient) {
  EXPECT_EQ(heard_of_a_visit(), (std::vector<Kind>{Kind::push, Kind::pull, Kind::done}));
}

template <class Options>
void expect_that_all_end(const RunPlan& plan, const Options& options) {
  testing::expect_that_others_name_the_failing_worker(
      run_ranks(plan, testing::with_a_failing_worker(maker(options)), server_of(options)));
}

TEST_P(OverTransports, AFailureOfOneWorkerEndsTheOthersAtOnceAndNamesIt) {
  expect_that_all_end(tiny_plan(3, 2, false, 1), PsOptions{.transport = GetParam()});
  expect_that_all_end(tiny_plan(2, 1, true, 1), DpOptions{.transport = GetParam()});
}

/// Worker 1 and the others are given different plans.
TEST(Failures, AWorkerOfAnotherPlanIsRefusedAndBothSidesSayWhy) {
  const RunPlan plan = tiny_plan(2, 1, false, 1);
  RunPlan other = plan;
  other.model.layers += 1;
  MemoryStore store;
  std::vector<std::string> errors(plan.ranks.size());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < static_cast<int>(errors.size()); ++rank)
    threads.emplace_back([&, rank] {
      RankResult result;
      const PsOptions options{.servers = 1};
      errors[static_cast<std::size_t>(rank)] = testing::complaint([&] {
        testing::run_rank(
            rank == 1 ? other : plan, rank, store, maker(options), server_of(options),
            [] { return make_cpu_device(1); }, testing::links_to_servers(), result);
      });
    });
  threads.clear();
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("server 0 refuses worker 1"), std::string::npos) << error;
    EXPECT_NE(error.find(greeting_of(plan)), std::string::npos) << error;
    EXPECT_NE(error.find(greeting_of(other)), std::string::npos) << error;
  }
}

TEST_P(OverTransports, AWorkerThatDoesNotComeKeepsNoRankWaiting) {
  RunPlan plan = tiny_plan(2, 1, false, 1);
  plan.train.timeout_s = 0.3;
  const PsOptions options{.servers = 1, .transport = GetParam()};
  const auto results =
      run_ranks(plan, testing::without_worker_1(maker(options)), server_of(options));
  EXPECT_NE(results[0].error, "");
  EXPECT_NE(results[2].error, "");
}

/// ZeroMQ's thread of worker 1 lives on and would answer heartbeats; but the worker computes no
/// more.
TEST(Failures, AWorkerThatIsStuckIsNamedThoughItsConnectionLives) {
  RunPlan plan = tiny_plan(2, 1, false, 1);
  plan.train.timeout_s = 0.5;
  const PsOptions options{.servers = 1};
  std::promise<void> over;
  const std::shared_future<void> end = over.get_future().share();
  const testing::Make stuck = [&, make = maker(options)](const RankContext& context) {
    auto scheme = make(context);
    if (context.rank != 1) return scheme;
    const auto device = make_cpu_device(1);
    Model model = make_mlp(context.plan.model, *device);
    scheme->attach(model);
    end.wait();
    throw Error("was stuck");
  };
  const testing::Serve serve = [&, inner = server_of(options)](const RankContext& context,
                                                               Model& model, const Loader& loader) {
    const std::shared_ptr<void> told(nullptr, [&](void*) { over.set_value(); });
    return inner(context, model, loader);
  };
  const auto results = run_ranks(plan, stuck, serve);
  EXPECT_NE(results[2].error.find("worker 1 has been silent for 0.5 s"), std::string::npos)
      << results[2].error;
  EXPECT_NE(results[0].error.find("worker 1 has been silent"), std::string::npos)
      << results[0].error;
}

/// ZeroMQ's thread of the server takes messages, but the server handles none.
TEST(Failures, AServerThatIsStuckIsNamedThoughItsConnectionLives) {
  RunPlan plan = tiny_plan(1, 1, false, 1);
  plan.train.timeout_s = 0.3;
  std::promise<void> over;
  const testing::Serve stuck = [&](const RankContext& context, Model&,
                                   const Loader&) -> RankRecord {
    const auto transport = context.links.transport<Transport>();
    const Connection connection = transport->listen(context, {});
    EXPECT_TRUE(connection.channel->receive(plan.train.timeout_s));
    over.get_future().wait();
    return {};
  };
  MemoryStore store;
  const auto run_one = [&](int rank) {
    RankResult result;
    return testing::complaint([&] {
      testing::run_rank(
          plan, rank, store, maker(PsOptions{.servers = 1}), stuck,
          [] { return make_cpu_device(1); }, testing::links_to_servers(), result);
    });
  };
  const std::jthread server([&] { EXPECT_EQ(run_one(1), "nothing"); });
  EXPECT_NE(run_one(0).find("server 0 has not answered request"), std::string::npos);
  over.set_value();
}

TEST_P(OverTransports, AWorkerNamesTheServerThatIsNotThere) {
  RunPlan plan = tiny_plan(1, 1, false, 1);
  plan.train.timeout_s = 0.2;
  const auto results =
      run_ranks(plan, maker(PsOptions{.transport = GetParam()}), testing::absent_server);
  EXPECT_NE(results[0].error.find("ps."), std::string::npos) << results[0].error;
}

template <class Options>
std::string refusal(const Options& options) {
  return testing::complaint([&] { check(options, tiny_plan(2, 2, false, 1)); });
}

TEST(Options, AreRefusedByName) {
  EXPECT_EQ(refusal(PsOptions{}), "nothing");
  EXPECT_EQ(refusal(DpOptions{}), "nothing");
  const auto names = [](const std::string& text, const char* option) {
    EXPECT_NE(text.find(option), std::string::npos) << text;
  };
  names(refusal(PsOptions{.servers = 0}), "scheme.ps.servers = 0");
  names(refusal(PsOptions{.partition_mb = 0}), "scheme.ps.partition_mb = 0");
  names(refusal(PsOptions{.io_threads = 0}), "scheme.ps.io_threads = 0");
  names(refusal(PsOptions{.port = 80}),
        "only transport tcp has ports; set scheme.ps.transport = \"tcp\"");
  names(refusal(PsOptions{.transport = TransportKind::tcp, .port = 65535}),
        "scheme.ps.port = 65535");
  names(refusal(PsOptions{.transport = TransportKind::tcp, .port = 65535}),
        "set scheme.ps.port = 0");
  names(refusal(DpOptions{.transport = TransportKind::tcp, .port = -1}), "scheme.dp.port");
}

TEST(Options, AddressesThatOtherMachinesReachNeedKeys) {
  const auto tcp = [](const Reach& reach) {
    return refusal(PsOptions{.transport = TransportKind::tcp, .reach = reach});
  };
  const auto names = [](const std::string& text, const char* option) {
    EXPECT_NE(text.find(option), std::string::npos) << text;
  };
  EXPECT_EQ(tcp({.address = "127.0.0.2"}), "nothing");
  EXPECT_EQ(tcp({.keys = "folder"}), "nothing");
  EXPECT_EQ(tcp({.address = "192.168.1.5", .keys = "folder"}), "nothing");
  EXPECT_EQ(tcp({.address = "0.0.0.0", .advertise = "here", .keys = "folder"}), "nothing");
  names(tcp({.address = "192.168.1.5"}), "set scheme.ps.keys");
  names(tcp({.address = "0.0.0.0", .advertise = "here"}), "set scheme.ps.keys");
  names(tcp({.address = "0.0.0.0", .keys = "folder"}), "set scheme.ps.advertise");
  names(tcp({.address = "localhost"}), "no IPv4 address");
  names(tcp({.advertise = "here"}), "set scheme.ps.address too");
  names(refusal(DpOptions{.reach = {.keys = "folder"}}), "scheme.dp.keys = \"folder\": only");
  names(refusal(DpOptions{.reach = {.keys = "folder"}}), "set scheme.dp.transport = \"tcp\"");
}

TEST(ReplicaSchemes, EndWithTheBitsOfASequentialSumWithKeys) {
  const testing::TemporaryFolder folder;
  const std::string keys = folder.path() / "keys";
  write_keys(keys, 2);
  const PsOptions options{.servers = 2,
                          .transport = TransportKind::tcp,
                          .reach = {.address = "127.0.0.1", .keys = keys}};
  const RunPlan plan = tiny_plan(2, 2, false, 1);
  expect_run_of(reference(2, 1), plan, run_all(plan, options));
}

TEST(ReplicaSchemes, SumMoreValuesThanAFrameTakes) {
  const RunPlan plan = tiny_plan(2, 1, false, 1);
  constexpr std::size_t count = 2 * max_chunk_bytes / sizeof(double) + 3;
  MemoryStore store;
  std::vector<std::vector<double>> sums(2);
  std::vector<std::string> errors(3);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto device = make_cpu_device(1);
        Model model = make_mlp(plan.model, *device);
        const testing::RandomTokens data(plan.model);
        const Loader loader(data, *device, plan.train.global_batch, 1);
        Timeline timeline(*device);
        Shared shared;
        const RankContext context{plan,     rank,    *device, store,
                                  timeline, &shared, {},      testing::links_to_servers()};
        if (rank == 2) {
          serve_ps(context, {.servers = 1}, model, loader);
          return;
        }
        const auto scheme = make_ps(context, {.servers = 1});
        scheme->attach(model);
        auto& values = sums[static_cast<std::size_t>(rank)];
        for (std::size_t i = 0; i < count; ++i)
          values.push_back(static_cast<double>(i) + 0.25 * rank);
        scheme->sum(values);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  threads.clear();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  for (const auto& values : sums) {
    ASSERT_EQ(values.size(), count);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(values[i], 2 * static_cast<double>(i) + 0.25) << i;
  }
}

}  // namespace
}  // namespace ringside::ps
