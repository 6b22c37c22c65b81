#include "experiments/results/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

namespace ringside {
namespace {

TEST(TraceTest, SpansOfOneLineDoNotOverlap) {
  RankRecord rank;
  rank.rank = 3;
  rank.role = "worker";
  rank.slices = {{"compute", "forward a", 100.0, 1.0},
                 {"communication", "push 0", 100.0, 2.0},
                 {"communication", "push 1", 100.5, 1.0},
                 {"communication", "push 2", 101.5, 2.0},
                 {"exposed", "wait", 101.0, 2.0}};
  const auto out = trace({rank});
  std::map<int, double> line_ends;
  int spans = 0;
  for (const auto& event : out["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++spans;
    EXPECT_EQ(event["pid"], 3);
    const int line = event["tid"];
    EXPECT_GE(event["ts"].get<double>() + 1e-3, line_ends[line]) << event;
    line_ends[line] = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(spans, 5);
  EXPECT_EQ(line_ends.size(), 3u) << "main, and two lines of communication";
}

TEST(TraceTest, StartsAtZeroMicroseconds) {
  RankRecord early, late;
  early.slices = {{"compute", "forward", 50.0, 0.5}};
  late.rank = 1;
  late.slices = {{"compute", "forward", 50.25, 0.5}};
  const auto out = trace({early, late});
  std::map<int, double> starts;
  for (const auto& event : out["traceEvents"])
    if (event["ph"] == "X") starts[event["pid"]] = event["ts"];
  EXPECT_NEAR(starts[0], 0, 1e-6);
  EXPECT_NEAR(starts[1], 250'000, 1e-3);
}

}  // namespace
}  // namespace ringside
