// Every number of an experiment file is held to a range when the file is read, whatever uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "experiments/runner/config/config.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/registry/registry.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Numbers below 0 that mean something: -1 is "as the cluster file says", and a mean may be any.
const std::set<std::string> may_be_negative = {"sim.queue_kb", "sim.spread", "sim.device_share",
                                               "data.mean"};

bool has_numbers(const FieldValue& value) {
  return std::visit(
      []<class Value>(const Value&) {
        return !std::is_same_v<Value, bool*> && !std::is_same_v<Value, std::string*> &&
               !std::is_same_v<Value, std::vector<std::string>*> &&
               !std::is_same_v<Value, Choice> && !std::is_same_v<Value, Fields> &&
               !std::is_same_v<Value, Structs> && !std::is_same_v<Value, Table>;
      },
      value);
}

/// The value with `number` in place of each of its numbers, as `--set` takes it.
std::string with_number(const FieldValue& value, const std::string& number) {
  if (std::holds_alternative<std::vector<std::pair<std::int64_t, std::int64_t>>*>(value))
    return "[[" + number + ", " + number + "]]";
  const bool list = std::holds_alternative<std::vector<std::int64_t>*>(value) ||
                    std::holds_alternative<std::vector<double>*>(value) ||
                    std::holds_alternative<ListOrName>(value);
  return list ? "[" + number + "]" : number;
}

/// Calls visit(key, value) for each key that has numbers.
template <class Visit>
void for_each_number(const Visit& visit) {
  const auto of_table = [&](const std::string& table, const Fields& fields) {
    for (const Field& field : fields)
      if (has_numbers(field.value)) visit(table + "." + std::string(field.name), field.value);
  };
  ExperimentConfig config;
  for (const auto& [table, fields] : tables_of(config)) of_table(std::string(table), fields);
  for (const SchemeInfo& scheme : scheme_rows()) {
    Options options = scheme.defaults;
    of_table("scheme." + std::string(scheme.name), options.fields());
  }
}

std::string refusal(const std::string& key, const std::string& text) {
  return complaint([&] { experiment_of("trial", {key + "=" + text}); });
}

TEST(EveryNumber, IsRefusedBelowItsRange) {
  int seen = 0;
  for_each_number([&](const std::string& key, const FieldValue& value) {
    ++seen;
    const std::string text = refusal(key, with_number(value, "-1"));
    if (may_be_negative.contains(key))
      EXPECT_EQ(text, "nothing") << key;
    else
      EXPECT_THAT(text, HasSubstr(key + " = -1 must ")) << key;
  });
  EXPECT_GT(seen, 80);
}

TEST(EveryNumber, IsRefusedIfItIsNotFinite) {
  for_each_number([&](const std::string& key, const FieldValue& value) {
    EXPECT_THAT(refusal(key, with_number(value, "nan")), HasSubstr(key)) << key;
  });
}

TEST(EveryNumber, IsInItsRangeByDefault) {
  ExperimentConfig config;
  config.name = "trial";
  for (const SchemeInfo& scheme : scheme_rows())
    config.scheme_options[std::string(scheme.name)] = scheme.defaults;
  EXPECT_EQ(complaint([&] { check_config(config); }), "nothing");
}

TEST(EveryNumber, OfAConfigurationThatTheProgramMakesIsHeldToItsRangeToo) {
  ExperimentConfig config;
  config.name = "trial";
  config.device.peak_tflops = -1;
  EXPECT_EQ(complaint([&] { check_config(config); }),
            "device.peak_tflops = -1 must not be negative");
}

}  // namespace
}  // namespace ringside::runner
