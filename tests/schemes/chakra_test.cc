// Chakra execution traces of runs, read back with protobuf.
#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "et_def.pb.h"
#include "experiments/runner/results/trace.h"
#include "experiments/runner/run/simulation.h"
#include "experiments/tools/chakra/trace_files.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/small_cluster.h"

namespace ringside::tools::chakra {
namespace {

struct RankFile {
  std::string version;
  std::vector<proto::Node> nodes;
};

RankFile read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  google::protobuf::io::IstreamInputStream stream(&in);
  proto::GlobalMetadata metadata;
  bool ended = false;
  EXPECT_TRUE(google::protobuf::util::ParseDelimitedFromZeroCopyStream(&metadata, &stream, &ended));
  RankFile out{metadata.version(), {}};
  for (proto::Node node;
       google::protobuf::util::ParseDelimitedFromZeroCopyStream(&node, &stream, &ended);
       node.Clear())
    out.nodes.push_back(node);
  EXPECT_TRUE(ended) << "the file ends behind a message";
  return out;
}

const proto::Attribute& attribute(const proto::Node& node, const std::string& name) {
  for (const proto::Attribute& one : node.attr())
    if (one.name() == name) return one;
  throw Error("{} has no attribute {}", node.name(), name);
}

/// The bytes that a rank of a group of `ranks` sends on ASTRA-sim's ring, by the size that it takes
/// for the collective: the whole array, but of an all-gather the rank's own part.
double sent_on_ring(const proto::Node& node, double ranks) {
  const auto size = static_cast<double>(attribute(node, "comm_size").int64_val());
  switch (attribute(node, "comm_type").int64_val()) {
    case proto::ALL_REDUCE:
      return 2 * (ranks - 1) / ranks * size;
    case proto::REDUCE_SCATTER:
    case proto::ALL_TO_ALL:
      return (ranks - 1) / ranks * size;
    case proto::ALL_GATHER:
      return (ranks - 1) * size;
    default:
      throw Error("{} is of another type", node.name());
  }
}

constexpr std::int64_t steps = 4;

runner::ExperimentConfig traced() {
  auto config = testing::tiny("mlp");
  config.train.steps = steps;
  config.train.warmup = 0;
  return config;
}

RunRecord simulated_run(const runner::ExperimentConfig& config, const std::string& scheme,
                        int world) {
  const RunPlan plan = runner::plan_training(
      testing::simulated(config, testing::small_cluster(world)), scheme, world);
  return make_row(plan, runner::simulate(plan, [](const Progress&) {}));
}

/// A run whose trace has all of its steps, on two ranks: threads, or simulated devices, which do
/// not read each other's memory.
RunRecord run(const std::string& scheme, bool simulated = false) {
  auto config = traced();
  config.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 0.002};
  if (simulated) return simulated_run(config, scheme, 2);
  return testing::run(runner::plan_training(config, scheme, 2));
}

class ChakraFiles : public ::testing::TestWithParam<std::pair<std::string, bool>> {};

TEST_P(ChakraFiles, HaveEveryCollectiveOfTheRun) {
  const RunRecord row = run(GetParam().first, GetParam().second);
  const nlohmann::json trace = runner::trace(row.ranks);
  const testing::TemporaryFolder folder;
  write_files(graphs_of(runner::read_trace(trace)), folder.path(), "run");
  std::vector<std::vector<std::string>> orders;
  for (const RankRecord& rank : row.ranks) {
    const RankFile file = read(folder.path() / fmt::format("run.{}.et", rank.rank));
    EXPECT_EQ(file.version, "0.0.4");
    std::uint64_t last = 0;
    std::int64_t collectives = 0, waited_for = 0;
    double sent = 0;
    std::vector<std::string> order;
    std::set<std::uint64_t> communicated;
    for (const proto::Node& node : file.nodes) {
      EXPECT_GT(node.id(), last) << "ids grow";
      last = node.id();
      for (const std::uint64_t id : node.data_deps()) {
        EXPECT_GE(id, 1u);
        EXPECT_LT(id, node.id()) << "a node follows earlier ones, so the graph has no circle";
      }
      EXPECT_FALSE(attribute(node, "is_cpu_op").bool_val());
      if (node.type() != proto::COMM_COLL_NODE) {
        EXPECT_EQ(node.type(), proto::COMP_NODE);
        for (const std::uint64_t id : node.data_deps()) waited_for += communicated.count(id);
        continue;
      }
      communicated.insert(node.id());
      ++collectives;
      sent += sent_on_ring(node, 2);
      order.push_back(fmt::format("{} {} {}", attribute(node, "comm_type").int64_val(),
                                  attribute(node, "comm_size").int64_val(),
                                  attribute(node, "pg_name").string_val()));
    }
    std::int64_t traced = 0;
    for (const Slice& slice : rank.slices)
      traced += slice.activity == "communication" || slice.activity == "scalars";
    EXPECT_GT(collectives, 0);
    EXPECT_EQ(collectives, traced);
    EXPECT_EQ(waited_for, collectives) << "whatever comes is used";
    EXPECT_DOUBLE_EQ(sent, rank.bytes_sent_per_step * steps);
    orders.push_back(order);
  }
  EXPECT_EQ(orders[0], orders[1]) << "ranks of a group call the same collectives in one order";
  std::ifstream groups(folder.path() / "run.groups.json");
  EXPECT_EQ(nlohmann::json::parse(groups), nlohmann::json({{"1", {0, 1}}}));
}

INSTANTIATE_TEST_SUITE_P(Schemes, ChakraFiles,
                         ::testing::Values(std::pair("ddp", false), std::pair("ddp", true),
                                           std::pair("fsdp", true), std::pair("local_sgd", false)),
                         [](const auto& info) {
                           return info.param.first +
                                  std::string(info.param.second ? "_simulated" : "");
                         });

/// A group of one rank never ends in ASTRA-sim, and group 0 is all ranks there.
TEST(ChakraFiles, NumberTheGroupsOfSeveralRanksFromOne) {
  for (const std::int64_t group : {1, 2, 4}) {
    auto config = traced();
    config.scheme_options["fsdp"] =
        peer::FsdpOptions{.shard = peer::Shard::hybrid_shard, .shard_group = group};
    const RunRecord row = simulated_run(config, "fsdp", 4);
    const testing::TemporaryFolder folder;
    write_files(graphs_of(runner::read_trace(runner::trace(row.ranks))), folder.path(), "run");
    std::ifstream in(folder.path() / "run.groups.json");
    const auto groups = nlohmann::json::parse(in).get<std::map<std::string, std::vector<int>>>();
    for (const auto& [number, ranks] : groups) {
      EXPECT_GE(std::stoi(number), 1);
      EXPECT_GE(ranks.size(), 2u);
      EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end()));
    }
    double on_ring = 0, in_row = 0;  // of all ranks: their parts of an all-reduce may differ
    for (const RankRecord& rank : row.ranks) {
      double sent = 0;
      std::int64_t computed_us = 0;
      for (const proto::Node& node :
           read(folder.path() / fmt::format("run.{}.et", rank.rank)).nodes) {
        if (node.type() != proto::COMM_COLL_NODE) {
          computed_us += static_cast<std::int64_t>(node.duration_micros());
          continue;
        }
        const auto& ranks = groups.at(attribute(node, "pg_name").string_val());
        EXPECT_TRUE(std::binary_search(ranks.begin(), ranks.end(), rank.rank));
        sent += sent_on_ring(node, static_cast<double>(ranks.size()));
      }
      on_ring += sent;
      in_row += rank.bytes_sent_per_step * steps;
      double computing = 0;
      for (const StepTime& step : rank.steps)
        for (const Activity activity :
             {Activity::compute, Activity::optimizer, Activity::data, Activity::encoding})
          computing += 1e6 * step.by_activity[static_cast<std::size_t>(activity)];
      EXPECT_NEAR(static_cast<double>(computed_us), computing, 2) << group;
    }
    EXPECT_NEAR(on_ring, in_row, 1) << group;
  }
}

TEST(ChakraGraphs, AreNotMadeOfMessagesToServers) {
  const nlohmann::json trace = runner::trace(run("ps").ranks);
  try {
    graphs_of(runner::read_trace(trace));
    FAIL() << "the run has messages";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("which is no collective"));
  }
}

TEST(ChakraGraphs, NeedAllRanksInTheTrace) {
  RunRecord row = run("ddp");
  row.ranks[1].slices.clear();
  const nlohmann::json trace = runner::trace(row.ranks);
  try {
    graphs_of(runner::read_trace(trace));
    FAIL() << "rank 1 is missing";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("nothing of rank 1; raise sim.traced_ranks"));
  }
}

}  // namespace
}  // namespace ringside::tools::chakra
