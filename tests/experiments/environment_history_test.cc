#include "experiments/runner/report/environment_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ringside::runner {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RunRecord row_of(const std::string& run, int attempt = 0) {
  RunRecord row;
  row.plan.id = run;
  row.attempt = attempt;
  return row;
}

json environment(const std::string& time, const std::string& program) {
  return {{"time", time},
          {"program", program},
          {"libraries", {"libc.so.6", "libdnnl.so.2.6"}},
          {"variables", {{"OMP_NUM_THREADS", "1"}}}};
}

TEST(EnvironmentHistory, AnotherTimeIsNoOtherEnvironment) {
  const auto now = with_earlier(environment("b", "0123"), environment("a", "0123"), {row_of("x")});
  EXPECT_EQ(json(now), environment("b", "0123"));
  EXPECT_THAT(texts_of_earlier(now), IsEmpty());
}

TEST(EnvironmentHistory, EveryRowHasItsEnvironment) {
  const json first = environment("a", "0123");
  const json second = with_earlier(environment("b", "4567"), first, {row_of("x"), row_of("y", 1)});
  EXPECT_EQ(second.at("earlier"),
            json::parse(R"([{"rows": [{"run": "x", "attempt": 0}, {"run": "y", "attempt": 1}],
                             "environment": )" +
                        first.dump() + "}]"));
  EXPECT_THAT(texts_of_earlier(second),
              ElementsAre("2 rows were made in another environment: program was 0123, now 4567"));
  json third = environment("c", "89ab");
  third["libraries"] = {"libc.so.6", "libdnnl.so.3.1"};
  third["variables"] = json::object();
  third = with_earlier(third, second, {row_of("x"), row_of("y", 1), row_of("z")});
  EXPECT_THAT(
      texts_of_earlier(third),
      ElementsAre(
          "2 rows were made in another environment: libraries was [\"libdnnl.so.2.6\"], now "
          "[\"libdnnl.so.3.1\"]; program was 0123, now 89ab; variables.OMP_NUM_THREADS was "
          "1, now nothing",
          "1 row was made in another environment: libraries was [\"libdnnl.so.2.6\"], now "
          "[\"libdnnl.so.3.1\"]; program was 4567, now 89ab; variables.OMP_NUM_THREADS was "
          "1, now nothing"));
  // Back to the first environment: the rows that were made there are of the present one again.
  const json last = with_earlier(first, third, {row_of("x"), row_of("y", 1), row_of("z")});
  ASSERT_EQ(last.at("earlier").size(), 1u);
  EXPECT_EQ(last.at("earlier")[0].at("environment"), environment("b", "4567"));
}

TEST(EnvironmentHistory, RowsWithoutOneSaySo) {
  const json now = with_earlier(environment("b", "0123"), nullptr, {row_of("x")});
  EXPECT_THAT(texts_of_earlier(now),
              ElementsAre("1 row was made in an environment that is not known"));
}

TEST(EnvironmentHistory, RowsThatAreNotKeptLeaveNothing) {
  EXPECT_EQ(json(with_earlier(environment("b", "4567"), environment("a", "0123"), {})),
            environment("b", "4567"));
}

}  // namespace
}  // namespace ringside::runner
