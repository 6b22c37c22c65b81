#include "core/base/fields.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "tests/support/complaint.h"

namespace ringside {
namespace {

enum class Shade : std::uint8_t { light, dark };
constexpr std::string_view shade_names[] = {"light", "dark"};
constexpr EnumNames names_of(Shade) { return shade_names; }

enum class LimitKind : std::uint8_t { none, number, automatic };
constexpr std::string_view limit_names[] = {"none", "number", "automatic"};
constexpr EnumNames names_of(LimitKind) { return limit_names; }

enum class WeightsKind : std::uint8_t { even, list };
constexpr std::string_view weights_names[] = {"even", "list"};
constexpr EnumNames names_of(WeightsKind) { return weights_names; }

struct Part {
  double weight = 1;
  Shade shade = Shade::dark;
};
Fields fields_of(Part& part) { return {{"weight", &part.weight}, {"shade", &part.shade}}; }

/// A struct with a field of every type.
struct Whole {
  bool ready = false;
  int number = 1;
  std::int64_t count = 2;
  double share = 0.5;
  std::string text = "t";
  Shade shade = Shade::light;
  LimitKind limit_kind = LimitKind::none;
  double limit = 0;
  WeightsKind weights_kind = WeightsKind::even;
  std::vector<std::int64_t> weights;
  std::optional<double> figure;
  std::vector<std::string> words;
  std::vector<std::int64_t> counts;
  std::vector<double> figures;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  std::vector<std::pair<double, double>> points;
  Part part;
  std::optional<Part> spare;
  std::vector<Part> parts;
  std::map<std::string, std::map<std::string, double>> table;
};
Fields fields_of(Whole& w) {
  return {{"ready", &w.ready},
          {"number", &w.number},
          {"count", &w.count},
          {"share", &w.share},
          {"text", &w.text},
          {"shade", &w.shade},
          {"limit", NumberOrName{&w.limit, &w.limit_kind, "number"}},
          {"weights", ListOrName{&w.weights, &w.weights_kind, "list"}},
          {"figure", &w.figure},
          {"words", &w.words},
          {"counts", &w.counts},
          {"figures", &w.figures},
          {"pairs", &w.pairs},
          {"points", &w.points},
          {"part", fields_of(w.part)},
          {"spare", Structs(&w.spare)},
          {"parts", Structs(&w.parts)},
          {"table", Table(&w.table)}};
}

/// No field has its default value.
Whole filled() {
  Whole w;
  w.ready = true;
  w.number = -3;
  w.count = std::int64_t{1} << 60;
  w.share = 0.1;
  w.text = "\"quoted\"";
  w.shade = Shade::dark;
  w.limit_kind = LimitKind::number;
  w.limit = 2.5;
  w.weights_kind = WeightsKind::list;
  w.weights = {3, 1};
  w.figure = 0;
  w.words = {"a", "b"};
  w.counts = {1, 2};
  w.figures = {0.1, 1e300};
  w.pairs = {{0, 1}, {1, 2}};
  w.points = {{0.5, 1}};
  w.part = {.weight = 2, .shade = Shade::light};
  w.spare = Part{.weight = 3};
  w.parts = {Part{}, Part{.weight = 4}};
  w.table = {{"x", {{"y", 5}}}, {"z", {}}};
  return w;
}

TEST(Fields, OfEveryTypeComeBackFromTheirJson) {
  for (const Whole& whole : {Whole{}, filled()}) {
    const auto text = to_json(whole).dump();
    const auto back = read_json<Whole>(nlohmann::json::parse(text));
    EXPECT_TRUE(equal(fields_to_read(back), fields_to_read(whole))) << text;
    EXPECT_EQ(to_json(back).dump(), text);
  }
  EXPECT_FALSE(equal(fields_to_read(Whole{}), fields_to_read(filled())));
}

TEST(Fields, AreEqualOnlyIfEveryFieldIs) {
  const nlohmann::json defaults = to_json(Whole{});
  for (const auto& [name, value] : defaults.items()) {
    nlohmann::json changed = to_json(filled());
    changed[name] = value;
    EXPECT_FALSE(equal(fields_to_read(read_json<Whole>(changed)), fields_to_read(filled())))
        << name;
  }
}

TEST(Fields, OfAListOrANameAreOneOfTheTwo) {
  Whole whole;
  EXPECT_EQ(to_json(whole).at("weights"), "even");
  whole = filled();
  EXPECT_EQ(to_json(whole).at("weights"), nlohmann::ordered_json({3, 1}));
  nlohmann::json json = to_json(whole);
  json["weights"] = "even";
  whole = read_json<Whole>(json);
  EXPECT_TRUE(whole.weights.empty());
  EXPECT_EQ(whole.weights_kind, WeightsKind::even);
  json["weights"] = "odd";
  EXPECT_THROW(read_json<Whole>(json), Error);
}

TEST(Fields, OfANumberOrANameAreOneOfTheTwo) {
  Whole whole, other;
  EXPECT_EQ(to_json(whole).at("limit"), "none");
  whole.limit = 3;
  EXPECT_TRUE(equal(fields_of(whole), fields_of(other))) << "a number that does not count";
  whole.limit_kind = LimitKind::number;
  EXPECT_EQ(to_json(whole).at("limit"), 3.0);
  other.limit_kind = LimitKind::number;
  EXPECT_FALSE(equal(fields_of(whole), fields_of(other)));
  nlohmann::json json = to_json(whole);
  json["limit"] = "automatic";
  EXPECT_EQ(read_json<Whole>(json).limit_kind, LimitKind::automatic);
  json["limit"] = 7;
  EXPECT_EQ(read_json<Whole>(json).limit, 7);
  json["limit"] = "some";
  EXPECT_THROW(read_json<Whole>(json), Error);
}

TEST(Fields, WhatTheyHeldBeforeIsGone) {
  Whole whole = filled();
  read_json(to_json(Whole{}), fields_of(whole));
  EXPECT_TRUE(equal(fields_of(whole), fields_to_read(Whole{})));
}

TEST(Fields, OfWrongTypesOrMissingAreRefused) {
  const nlohmann::json good = to_json(filled());
  const auto with = [&](const char* name, const nlohmann::json& value) {
    nlohmann::json changed = good;
    changed[name] = value;
    return changed;
  };
  EXPECT_NO_THROW(read_json<Whole>(good));
  EXPECT_NO_THROW(read_json<Whole>(with("unknown", 1)));
  for (const auto& [name, value] : {std::pair<const char*, nlohmann::json>{"ready", "yes"},
                                    {"count", "many"},
                                    {"text", 3},
                                    {"words", "a"},
                                    {"pairs", {1, 2}},
                                    {"part", 3},
                                    {"parts", nlohmann::json::object()},
                                    {"spare", 7},
                                    {"table", 3},
                                    {"limit", true},
                                    {"shade", 1}})
    EXPECT_THROW(read_json<Whole>(with(name, value)), nlohmann::json::exception) << name;
  for (const auto& [name, value] : good.items()) {
    nlohmann::json lacking = good;
    lacking.erase(name);
    EXPECT_THROW(read_json<Whole>(lacking), nlohmann::json::exception) << name;
  }
  try {
    read_json<Whole>(with("shade", "grey"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "shade = \"grey\": choose light or dark");
  }
}

TEST(Fields, ThatAnOlderFileLacksKeepTheirDefaultsAtAnyDepth) {
  const nlohmann::json good = to_json(filled());
  for (const auto& [name, value] : good.items()) {
    nlohmann::json lacking = good;
    lacking.erase(name);
    EXPECT_EQ(to_json(read_json<Whole>(lacking, Absent::keeps_default)).at(name),
              to_json(Whole{}).at(name))
        << name;
  }
  nlohmann::json json = good;
  for (nlohmann::json* one : {&json["part"], &json["parts"][0]}) one->erase(one->begin().key());
  EXPECT_THROW(read_json<Whole>(json), nlohmann::json::exception);
  EXPECT_NO_THROW(read_json<Whole>(json, Absent::keeps_default));
  EXPECT_THROW(read_json<Whole>(nlohmann::json(3), Absent::keeps_default),
               nlohmann::json::exception);
}

TEST(Fields, StructsListsAndMapsAreNoSingleValues) {
  Whole whole;
  int several = 0;
  for (const Field& field : fields_of(whole)) several += is_single(field.value) ? 0 : 1;
  EXPECT_EQ(several, 4);
}

TEST(NamedEnum, HasANameForEachValueAndNoOther) {
  EXPECT_EQ(name_of(Shade::dark), "dark");
  EXPECT_EQ(value_named<Shade>("dark"), Shade::dark);
  EXPECT_FALSE(value_named<Shade>("Dark").has_value());
  const std::string_view three[] = {"a", "b", "c"};
  EXPECT_EQ(one_of(three), "a, b or c");
  EXPECT_EQ(one_of(shade_names), "light or dark");
}

struct Ranges {
  double rate = 1;
  std::vector<std::int64_t> counts;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  std::optional<double> figure;
  std::vector<Part> parts;
  std::map<std::string, double> table;
};
Fields fields_of(Ranges& r) {
  return {{"rate", &r.rate, "", Range::share},
          {"counts", &r.counts, "", Range::positive},
          {"pairs", &r.pairs, "", Range::not_negative},
          {"figure", &r.figure, "", Range::positive},
          {"parts", Structs(&r.parts)},
          {"table", Table(&r.table), "", Range::positive}};
}

TEST(FieldRanges, NameTheNumberAndTheRuleThatItBreaks) {
  const auto refusal = [](const std::function<void(Ranges&)>& change) {
    Ranges ranges;
    change(ranges);
    return testing::complaint([&] { require_ranges(fields_of(ranges), "trial"); });
  };
  EXPECT_EQ(refusal([](Ranges&) {}), "nothing");
  EXPECT_EQ(refusal([](Ranges& r) { r.rate = 1.5; }),
            "trial.rate = 1.5 must be more than 0 and at most 1");
  EXPECT_EQ(refusal([](Ranges& r) { r.counts = {1, 0}; }), "trial.counts = 0 must be more than 0");
  EXPECT_EQ(refusal([](Ranges& r) {
              r.pairs = {{0, -2}};
            }),
            "trial.pairs = -2 must not be negative");
  EXPECT_EQ(refusal([](Ranges& r) { r.figure = 0; }), "trial.figure = 0 must be more than 0");
  EXPECT_EQ(refusal([](Ranges& r) { r.table["x"] = -1; }),
            "trial.table.x = -1 must be more than 0");
  EXPECT_EQ(refusal([](Ranges& r) {
              r.parts.resize(1);
              r.parts[0].weight = std::numeric_limits<double>::infinity();
            }),
            "trial.parts.weight = inf must be finite");
}

}  // namespace
}  // namespace ringside
