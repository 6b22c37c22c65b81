#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "core/checkpoint/checkpoint_format.h"
#include "core/interchange/safetensors.h"
#include "tests/checkpoint/written_checkpoint.h"

namespace ringside {
namespace {

using nlohmann::json;
using testing::complaint;
using ::testing::HasSubstr;
using ::testing::StartsWith;

json entry_of(const std::string& name, std::int64_t begin, std::int64_t count) {
  return {{"name", name},
          {"bytes", 100},
          {"digests", {std::string(32, 'a')}},
          {"ranges", {{{"name", "parameters"}, {"begin", begin}, {"count", count}}}}};
}

json good_manifest() {
  return {
      {"format", "ringside checkpoint"},
      {"version", 1},
      {"step", 3},
      {"parameters", 20},
      {"program", "p"},
      {"run", json::object()},
      {"scalars", json::object()},
      {"files",
       {entry_of("rank-00000.safetensors", 0, 10), entry_of("rank-00001.safetensors", 10, 10)}}};
}

/// The text of a manifest whose digests are right, whatever else it says.
std::string sealed(const json& manifest) {
  std::string text = manifest.dump();
  text.pop_back();
  return with_digests(text + ",\n");
}

std::string error_of(const std::function<void(json&)>& change) {
  json manifest = good_manifest();
  change(manifest);
  return complaint([&] { parse_manifest("m", sealed(manifest)); });
}

/// The same for a change of the second file's entry.
std::string error_of_file(const std::function<void(json&)>& change) {
  return error_of([&](json& manifest) { change(manifest["files"][1]); });
}

std::string error_of_range(const std::string& member, const json& value) {
  return error_of_file([&](json& file) { file["ranges"][0][member] = value; });
}

TEST(HostileManifest, LacksNoMember) {
  EXPECT_EQ(error_of([](json&) {}), "nothing");
  const json good = good_manifest(), file = entry_of("x", 0, 1);
  for (const auto& item : good.items()) {
    const std::string& name = item.key();
    EXPECT_THAT(error_of([&](json& manifest) { manifest.erase(name); }),
                name == "format" ? HasSubstr("m: this is no manifest of a checkpoint")
                                 : HasSubstr(fmt::format("m: '{}' is missing", name)));
  }
  for (const auto& item : file.items()) {
    const std::string& name = item.key();
    EXPECT_THAT(error_of_file([&](json& changed) { changed.erase(name); }),
                HasSubstr(fmt::format("'{}' is missing", name)));
  }
  for (const char* name : {"name", "begin", "count"})
    EXPECT_THAT(error_of_file([&](json& file) { file["ranges"][0].erase(name); }),
                HasSubstr(fmt::format("rank-00001.safetensors: '{}' is missing", name)));
  for (const json& other : {json(1), json("x"), json::array(), json()})
    EXPECT_THAT(error_of_file([&](json& file) { file = other; }), HasSubstr("'name' is missing"));
}

TEST(HostileManifest, OfAnotherVersionSaysSo) {
  EXPECT_EQ(error_of([](json& m) { m["version"] = 2; }),
            "m: its format has version 2, and this program reads version 1; use a program of that "
            "version");
  EXPECT_THAT(error_of([](json& m) { m["format"] = "other"; }), HasSubstr("no manifest"));
}

TEST(HostileManifest, HasNumbersThatAreNumbersOfThings) {
  const std::vector<json> wrong = {-1,   1.5,  "1",       1ULL << 63, json(),
                                   true, 1e30, json({1}), INT64_MIN};
  for (const json& value : wrong) {
    for (const char* name : {"step", "parameters", "version"})
      EXPECT_THAT(error_of([&](json& m) { m[name] = value; }),
                  HasSubstr(fmt::format("m: '{}' is {}, and not a number", name, value.dump())));
    for (const char* name : {"begin", "count", "replica"})
      EXPECT_THAT(error_of_range(name, value), HasSubstr(fmt::format("'{}' is ", name)));
    EXPECT_THAT(error_of_file([&](json& file) { file["bytes"] = value; }),
                HasSubstr("rank-00001.safetensors: 'bytes' is "));
  }
}

TEST(HostileManifest, NamesOnlyFilesOfItsFolder) {
  for (const char* name :
       {"", "../rank-00001.safetensors", "/etc/passwd", "..", "rank-1.safetensors",
        "rank-00001.safetensors/x", "rank-+0001.safetensors", "rank--0001.safetensors",
        "rank-99999999999.safetensors", "manifest.json", "rank-00001\n.safetensors"})
    EXPECT_THAT(error_of_file([&](json& file) { file["name"] = name; }),
                HasSubstr("is no name of a rank's file, such as rank-00000.safetensors"))
        << name;
  EXPECT_EQ(error_of_file([](json& file) { file["name"] = "rank-123456.safetensors"; }), "nothing");
  EXPECT_THAT(error_of_file([](json& file) { file["name"] = "rank-00000.safetensors"; }),
              HasSubstr("m: rank-00000.safetensors is listed twice"));
}

TEST(HostileManifest, HasADigestForEachBlock) {
  const auto digests = [](std::int64_t bytes, const json& list) {
    return error_of_file([&](json& file) {
      file["bytes"] = bytes;
      file["digests"] = list;
    });
  };
  const std::string one(32, '0');
  EXPECT_THAT(digests(100, json::array()),
              HasSubstr("0 digests are listed, but a file of 100 bytes has 1"));
  EXPECT_EQ(digests(1 << 20, {one}), "nothing");
  EXPECT_THAT(digests((1 << 20) + 1, {one}), HasSubstr("of 1048577 bytes has 2"));
  EXPECT_THAT(digests(INT64_MAX, {one}), HasSubstr("has 8796093022208"));
  EXPECT_THAT(digests(100, {"0"}), HasSubstr("the digest \"0\" does not have 32 digits"));
  EXPECT_THAT(digests(100, {5}), HasSubstr("the digest 5 does not"));
  EXPECT_THAT(digests(100, one), HasSubstr("'digests' is "));
}

TEST(HostileManifest, HasRangesThatFit) {
  EXPECT_THAT(error_of_range("count", 0), HasSubstr("count 0 are no range"));
  EXPECT_THAT(error_of_range("count", 26),
              HasSubstr("parameters[10:36] and the ranges before it do not fit into 100 bytes"));
  EXPECT_THAT(error_of_range("count", INT64_MAX), HasSubstr("are no range of values"));
  EXPECT_THAT(error_of_range("begin", INT64_MAX), HasSubstr("are no range of values"));
  EXPECT_THAT(error_of_range("begin", 9),
              HasSubstr("m: parameters[0:10] of rank-00000.safetensors and parameters[9:19] of "
                        "rank-00001.safetensors overlap"));
  EXPECT_EQ(error_of_range("begin", 11), "nothing") << "a gap is told when it is read";
  EXPECT_EQ(error_of_file([](json& file) {
              file["ranges"][0]["begin"] = 0;
              file["ranges"][0]["replica"] = 7;
            }),
            "nothing");
  for (const char* name : {"", "3/x", "a[0:1]", "a b", "\n", "../x"})
    EXPECT_THAT(error_of_range("name", name), HasSubstr("state cannot be named "));
  EXPECT_THAT(error_of_range("name", std::string(101, 'a')), HasSubstr("at most 100"));
}

TEST(HostileManifest, IsNeitherDeepNorWide) {
  json deep;
  for (int i = 0; i < 100; ++i) deep = json::array({deep});
  EXPECT_THAT(error_of([&](json& m) { m["run"] = deep; }), HasSubstr("nested too deep"));
  json wide;
  for (int i = 0; i < 5000; ++i) wide[std::to_string(i)] = i;
  EXPECT_THAT(error_of([&](json& m) { m["scalars"]["a"] = wide; }),
              HasSubstr("m: an object has 5000 members"));
  EXPECT_THAT(complaint([] { parse_manifest("m", with_digests("{\"step\": 1, \"step\": 2,\n")); }),
              HasSubstr("names 'step' twice"));
  EXPECT_THAT(complaint([] { parse_manifest("m", with_digests("\xff\n")); }),
              StartsWith("m: its JSON cannot be read"));
}

TEST(HostileManifest, AfterAnyEditIsRefusedOrMakesSense) {
  const std::string good = [] {
    std::string text = good_manifest().dump();
    text.pop_back();
    return text + ",\n";
  }();
  const std::string alphabet = "{}[]\",:0123456789-e.rank\\\xff ";
  int refused = 0;
  constexpr int rounds = 4000;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::string text = good;
    for (std::uint64_t edit = 0; edit <= round % 3; ++edit) {
      const auto draw = [&](std::uint64_t which, std::size_t below) {
        return static_cast<std::size_t>(
            random_bits(3 * edit + which, Stream::synthetic_data, round) % below);
      };
      const std::size_t at = draw(0, text.size());
      if (draw(1, 3) == 0)
        text.erase(at, 1 + draw(2, 4));
      else
        text[at] = alphabet[draw(2, alphabet.size())];
    }
    try {
      const Manifest read = parse_manifest("m", with_digests(text));
      EXPECT_GE(read.step, 0);
      for (const CheckpointFile& file : read.files) EXPECT_GE(file.bytes, 4);
      EXPECT_NO_THROW(parse_manifest("m", manifest_text(read)));
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith("m: "));
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 4);
  EXPECT_LT(refused, rounds) << "some edits change only values";
}

/// A rank's file with right digests, but other tensors than its ranges.
std::string error_of_tensors(const std::vector<SafetensorsWriter::Tensor>& tensors) {
  std::vector<std::byte> bytes;
  SafetensorsWriter writer(bytes, tensors);
  CheckpointFile file{"rank-00000.safetensors",
                      static_cast<std::int64_t>(bytes.size()),
                      {},
                      {{{"a"}, 0, 2}, {{"a", 1}, 2, 1}}};
  BlockDigests digests;
  digests.add(bytes);
  file.digests = digests.finish();
  return complaint([&] { parse_rank_file("f", bytes, file); });
}

TEST(HostileRankFile, HasTheRangesThatTheManifestLists) {
  EXPECT_EQ(error_of_tensors({{"a[0:2]", "F32", {2}, 4}, {"1/a[2:3]", "F32", {1}, 4}}), "nothing");
  EXPECT_EQ(error_of_tensors({{"a[0:2]", "F32", {2}, 4}}),
            "f: the manifest lists 1/a[2:3], which the file does not have");
  EXPECT_EQ(error_of_tensors(
                {{"a[0:2]", "F32", {2}, 4}, {"1/a[2:3]", "F32", {1}, 4}, {"b", "F32", {1}, 4}}),
            "f: the file has 3 ranges, and the manifest lists 2");
  EXPECT_EQ(error_of_tensors({{"a[0:2]", "F16", {2}, 2}, {"1/a[2:3]", "F32", {1}, 4}}),
            "f: a[0:2] has shape 2 and dtype F16, but its values are 2 of F32");
  EXPECT_THAT(error_of_tensors({{"a[0:2]", "F32", {1, 2}, 4}, {"1/a[2:3]", "F32", {1}, 4}}),
              HasSubstr("has shape 1x2"));
  EXPECT_THAT(error_of_tensors({{"a[0:2]", "F32", {3}, 4}, {"1/a[2:3]", "F32", {1}, 4}}),
              HasSubstr("has shape 3"));
}

}  // namespace
}  // namespace ringside
