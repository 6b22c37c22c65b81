#include "experiments/runner/results/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "experiments/runner/results/read_trace.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
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

TEST(TraceTest, IsReadAsItWasWritten) {
  RankRecord rank;
  rank.rank = 2;
  rank.slices = {{"step", "step 7", 10.0, 1.0, "steps"},
                 {"compute", "backward a", 10.0, 0.25, "", "", 0, 0, {4}},
                 {"communication", "bucket 0", 10.25, 0.5, "group all", "all_reduce", 64, 1, {4}}};
  const TracedSpans spans = read_trace(trace({rank}));
  ASSERT_EQ(spans.size(), 1u);
  ASSERT_EQ(spans.at(2).size(), 3u);
  const TracedSpan& step = spans.at(2)[0];
  EXPECT_EQ(step.category, "step");
  EXPECT_EQ(step.line, "steps");
  EXPECT_EQ(step.end_ns - step.begin_ns, 1'000'000'000);
  EXPECT_TRUE(step.arrows.empty());
  const TracedSpan& moved = spans.at(2)[2];
  EXPECT_EQ(moved.begin_ns, 250'000'000);
  EXPECT_EQ(moved.operation, "all_reduce");
  EXPECT_EQ(moved.group, "group all");
  EXPECT_EQ(moved.bytes, 64);
  EXPECT_EQ(moved.arrows, spans.at(2)[1].arrows);
  EXPECT_EQ(moved.arrows.size(), 1u);
}

TEST(TraceTest, WhatIsNoTraceIsRefused) {
  const testing::TemporaryFolder folder;
  const auto refusal = [&](const std::filesystem::path& file) -> std::string {
    try {
      read_trace_file(file);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal(folder.path() / "none.json"), HasSubstr("none.json is not there"));
  EXPECT_THAT(refusal(folder.write("cut.json", "{\"traceEvents\": [")), HasSubstr("no JSON"));
  EXPECT_THAT(refusal(folder.write("other.json", "{}")), HasSubstr("no trace of a run"));
}

}  // namespace
}  // namespace ringside::runner
