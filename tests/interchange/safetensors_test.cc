#include "core/interchange/safetensors.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>

#include "core/num/random.h"
#include "tests/interchange/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

using nlohmann::json;
using testing::bytes_of;
using testing::complaint;
using testing::contains;
using testing::entry;
using testing::safetensors;
using testing::TemporaryFolder;

std::string error_of_header(const json& header, std::size_t bytes) {
  const std::string file = safetensors(header.dump(), std::string(bytes, 'x'));
  return complaint([&] { parse_safetensors("f", bytes_of(file)); });
}

TEST(Safetensors, ReadsWhatItsDescriptionSays) {
  const json header = {{"b", entry("BF16", {2, 3}, 4, 16)},
                       {"a", entry("F32", {}, 0, 4)},
                       {"empty", entry("I64", {0, 7}, 16, 16)},
                       {"__metadata__", {{"format", "pt"}}}};
  const std::string file = safetensors(header.dump() + "   ", "0123456789abcdef");
  const auto [tensors, metadata] = parse_safetensors("f", bytes_of(file));
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(tensors.at("a").extents, std::vector<std::int64_t>());
  EXPECT_EQ(tensors.at("b").dtype, "BF16");
  EXPECT_EQ(tensors.at("b").extents, (std::vector<std::int64_t>{2, 3}));
  const auto b = tensors.at("b").bytes;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(b.data()), b.size()), "456789abcdef");
  EXPECT_TRUE(tensors.at("empty").bytes.empty());
}

TEST(Safetensors, OfManyTensorsAreReadSoon) {
  json header;
  constexpr std::size_t many = 40000;
  for (std::size_t i = 0; i < many; ++i)
    header["tensor." + std::to_string(i)] = entry("F32", {1}, 4 * i, 4 * i + 4);
  const std::string file = safetensors(header.dump(), std::string(4 * many, 'x'));
  const std::clock_t begin = std::clock();  // of this process: others may have the cores
  EXPECT_EQ(parse_safetensors("f", bytes_of(file)).tensors.size(), many);
  // If the time grew with the square of the number of tensors, it would be many times as long.
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
}

TEST(Safetensors, RefusesOffsetsThatAreNotTheTensors) {
  const auto of = [](const json& a, std::size_t bytes) {
    return error_of_header({{"a", a}}, bytes);
  };
  EXPECT_EQ(of(entry("F32", {2}, 0, 8), 8), "nothing");
  EXPECT_TRUE(contains(of(entry("F32", {2}, 0, 8), 7), "do not lie within 7 bytes"));
  EXPECT_TRUE(contains(of(entry("F32", {2}, 0, 8), 9), "1 bytes at the end belong to no tensor"));
  EXPECT_TRUE(contains(of(entry("F32", {2}, 1, 9), 9), "1 bytes before it belong to no tensor"));
  EXPECT_TRUE(contains(of(entry("F32", {2}, 8, 0), 8), "do not lie within"));
  EXPECT_TRUE(
      contains(of(entry("F16", {2}, 0, 8), 8), "a tensor of shape 2 and dtype F16 needs 4 bytes"));
  EXPECT_TRUE(contains(of(entry("F32", {1LL << 62, 4}, 0, 8), 8), "too large"));
  EXPECT_TRUE(contains(of(entry("F32", {1LL << 62, 0}, 0, 0), 0), "too large"));
  EXPECT_TRUE(contains(
      error_of_header({{"a", entry("F32", {2}, 0, 8)}, {"b", entry("F32", {2}, 4, 12)}}, 12),
      "tensor 'b' overlaps another tensor at byte 4"));
}

TEST(Safetensors, KnowsEveryDtypeOfTheFormat) {
  // Bytes of a tensor of 4 x 2 elements.
  const std::map<std::string, std::size_t> dtypes = {
      {"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},
      {"I32", 32},    {"U32", 32}, {"F32", 32}, {"F64", 64},    {"I64", 64},
      {"U64", 64},    {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (const auto& [dtype, bytes] : dtypes) {
    EXPECT_EQ(error_of_header({{"a", entry(dtype, {4, 2}, 0, bytes)}}, bytes), "nothing") << dtype;
    EXPECT_TRUE(contains(error_of_header({{"a", entry(dtype, {4, 2}, 0, 1)}}, 1),
                         "needs " + std::to_string(bytes) + " bytes"));
  }
  EXPECT_TRUE(
      contains(error_of_header({{"a", entry("F4", {3}, 0, 2)}}, 2),
               "tensor 'a' has 12 bits in shape 3 and dtype F4, which fill no whole bytes"));
}

TEST(Safetensors, RefusesEntriesThatAreNone) {
  const auto of = [](json a) { return error_of_header({{"a", std::move(a)}}, 8); };
  EXPECT_TRUE(contains(of(entry("F8", {2}, 0, 8)), "unknown dtype 'F8'"));
  EXPECT_TRUE(contains(of(entry("F32", {-2}, 0, 8)), "-2 where a count is expected"));
  EXPECT_TRUE(contains(of(5), "is not a JSON object"));
  EXPECT_TRUE(contains(of({{"dtype", "F32"}, {"shape", {2}}}), "does not have two data_offsets"));
  EXPECT_TRUE(contains(of({{"dtype", "F32"}, {"shape", {1.5}}, {"data_offsets", {0, 8}}}), "1.5"));
  json more = entry("F32", {2}, 0, 8);
  more["strides"] = {1};
  EXPECT_TRUE(contains(of(more), "'strides'"));
  EXPECT_TRUE(contains(error_of_header({{"__metadata__", {{"a", 1}}}}, 0), "__metadata__"));
  EXPECT_TRUE(contains(error_of_header(json::array(), 0), "not a JSON object"));
}

TEST(Safetensors, RefusesHeadersThatAreNone) {
  const auto of = [](const std::string& file) {
    return complaint([&] { parse_safetensors("f", bytes_of(file)); });
  };
  EXPECT_TRUE(contains(of("short"), "5 bytes"));
  EXPECT_TRUE(contains(of(std::string(8, '\xff')), "does not fit"));
  EXPECT_TRUE(contains(of(safetensors("{}", "").substr(0, 9)), "does not fit"));
  EXPECT_TRUE(contains(of(safetensors("{\"a\":", "")), "cannot be read"));
  EXPECT_TRUE(contains(of(safetensors(std::string(1 << 20, '['), "")), "too deep"));
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_TRUE(contains(of(safetensors("{" + a + "," + a + "}", "x")), "'a' twice"));
  EXPECT_EQ(of(safetensors("{" + a + "}", "x")), "nothing");
}

/// After any edit of its bytes, the file is either refused or all of its tensors lie within it.
TEST(Safetensors, OtherFilesInTheirPlaceAreNamed) {
  const TemporaryFolder folder;
  const auto says = [&](const std::string& text) {
    const std::string path = folder.write("model.safetensors", text);
    return complaint([&] { open_safetensors(path); });
  };
  EXPECT_TRUE(contains(says("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
                       "train.initial_weights: " + (folder.path() / "model.safetensors").string() +
                           " is a pointer of Git LFS"));
  EXPECT_TRUE(contains(says(std::string("PK\x03\x04\0\0", 6) + "model/data.pkl"),
                       "is a checkpoint that PyTorch pickled; write its tensors with"));
  EXPECT_TRUE(contains(says("<!DOCTYPE html><title>Sign in</title>"), "is a page of HTML"));
  EXPECT_EQ(says(safetensors("{}  ", "")), "nothing");
}

TEST(Safetensors, SurvivesAnyHeader) {
  const json header = {{"a", entry("F32", {2, 2}, 0, 16)},
                       {"b", entry("BF16", {4}, 16, 24)},
                       {"__metadata__", {{"format", "pt"}}}};
  const std::string good = safetensors(header.dump(), std::string(24, 'x'));
  const std::string alphabet = "{}[]\",:0123456789-eFBIU\\\xff ";
  int refused = 0;
  constexpr int rounds = 4000;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::string file = good;
    std::uint64_t draw = random_bits(1, Stream::synthetic_data, round);
    const auto next = [&](std::uint64_t below) {
      draw = random_bits(draw, Stream::synthetic_data, round);
      return static_cast<std::size_t>(draw % below);
    };
    for (std::size_t edits = 1 + next(3); edits > 0; --edits) {
      const std::size_t at = next(file.size());
      switch (next(4)) {
        case 0:
          file[at] = static_cast<char>(next(256));
          break;
        case 1:
          file.insert(at, 1, alphabet[next(alphabet.size())]);
          break;
        case 2:
          file.erase(at, 1 + next(4));
          break;
        default:
          file[at] = alphabet[next(alphabet.size())];
      }
    }
    // A buffer of exactly its size, so that a sanitizer sees a read beyond it.
    const std::vector<char> exact(file.begin(), file.end());
    const auto bytes = std::as_bytes(std::span(exact));
    try {
      std::size_t sum = 0;
      for (const auto& [name, tensor] : parse_safetensors("f", bytes).tensors) {
        EXPECT_GE(tensor.bytes.data(), bytes.data());
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), bytes.data() + bytes.size());
        sum += tensor.bytes.size();
      }
      EXPECT_LE(sum, bytes.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 4);
  EXPECT_LT(refused, rounds) << "some edits change only values";
}

class Written : public ::testing::Test {
 protected:
  std::vector<SafetensorsWriter::Tensor> tensors() const {
    return {{"half", "F16", {3}, 2}, {"whole", "F32", {2}, 4}, {"count", "I64", {}, 8}};
  }
  void write(SafetensorsWriter& writer, std::size_t index, const std::string& bytes) const {
    writer.write(index, bytes_of(bytes));
  }
  TemporaryFolder folder_;
  std::string path_ = (folder_.path() / "model.safetensors").string();
};

TEST_F(Written, IsReadWithTheSameBytes) {
  SafetensorsWriter writer(path_, tensors());
  write(writer, 2, "01234567");
  write(writer, 0, "abcdef");
  write(writer, 1, "ABCDEFGH");
  EXPECT_FALSE(std::filesystem::exists(path_)) << "before it is whole";
  writer.finish();
  const StoredTensors read = open_safetensors(path_);
  EXPECT_EQ(read.tensors.size(), 3u);
  const auto text = [&](const std::string& name) {
    const auto bytes = read.tensors.at(name).bytes;
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(text("half"), "abcdef");
  EXPECT_EQ(text("whole"), "ABCDEFGH");
  EXPECT_EQ(text("count"), "01234567");
  for (const auto& [name, tensor] : read.tensors) {
    const auto offset = tensor.bytes.data() - read.files[0]->bytes().data();
    EXPECT_EQ(offset % (name == "half" ? 2 : name == "whole" ? 4 : 8), 0) << name;
  }
}

TEST_F(Written, LeavesNothingWhenItIsNotFinished) {
  {
    SafetensorsWriter writer(path_, tensors());
    write(writer, 0, "abcdef");
    EXPECT_TRUE(contains(complaint([&] { writer.finish(); }), "whole was not written"));
    EXPECT_TRUE(contains(complaint([&] { write(writer, 1, "abc"); }),
                         "whole has 8 bytes, but 3 bytes were given"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_TRUE(contains(complaint([&] { SafetensorsWriter("/nowhere/at/all", tensors()); }),
                       "No such file"));
}

class Sharded : public ::testing::Test {
 protected:
  Sharded() {
    folder_.write("1.safetensors", safetensors(json{{"a", entry("U8", {2}, 0, 2)}}.dump(), "aa"));
    folder_.write("2.safetensors", safetensors(json{{"b", entry("U8", {1}, 0, 1)}}.dump(), "b"));
  }
  std::string index(const json& map) {
    return folder_.write("model.safetensors.index.json",
                         json{{"metadata", {{"total_size", 3}}}, {"weight_map", map}}.dump());
  }
  std::string error(const json& map) {
    return complaint([&] { open_safetensors(index(map)); });
  }
  TemporaryFolder folder_;
};

TEST_F(Sharded, IsReadAsOne) {
  const auto all = open_safetensors(index({{"a", "1.safetensors"}, {"b", "2.safetensors"}}));
  EXPECT_EQ(all.tensors.size(), 2u);
  EXPECT_EQ(all.tensors.at("a").bytes.size(), 2u);
  EXPECT_EQ(all.files.size(), 2u);
}

TEST_F(Sharded, ItsIndexMaySayAnythingInItsMetadata) {
  const json map = {{"a", "1.safetensors"}, {"b", "2.safetensors"}};
  const json nested =
      json::parse(R"({"total_size": 3, "quant": {"groups": {"0": {"bits": [4]}}}})");
  for (const json& metadata : {nested, json(7), json::array({nested}), json()})
    EXPECT_EQ(
        open_safetensors(folder_.write("x.safetensors.index.json",
                                       json{{"metadata", metadata}, {"weight_map", map}}.dump()))
            .tensors.size(),
        2u)
        << metadata;
  const std::string deep = R"({"metadata": )" + std::string(1 << 20, '[');
  EXPECT_TRUE(contains(complaint([&] { open_safetensors(folder_.write("deep.index.json", deep)); }),
                       "too deep"));
  const std::string twice =
      R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "a": "2.safetensors"}})";
  EXPECT_TRUE(contains(
      complaint([&] { open_safetensors(folder_.write("twice.index.json", twice)); }), "'a' twice"));
}

TEST_F(Sharded, IsRefusedWhereIndexAndFilesDisagree) {
  EXPECT_TRUE(contains(error({{"a", "2.safetensors"}, {"b", "2.safetensors"}}),
                       "tensor 'a' is not in 2.safetensors"));
  EXPECT_TRUE(contains(error({{"a", "3.safetensors"}}), "3.safetensors: there is no such file"));
  EXPECT_TRUE(
      contains(error({{"a", "../1.safetensors"}}), "not the name of a file in this folder"));
  EXPECT_TRUE(contains(error({{"c", "1.safetensors"}}), "'c' is not in"));
  EXPECT_TRUE(contains(error(json::object()), "no weight_map"));
  folder_.write(
      "3.safetensors",
      safetensors(json{{"a", entry("U8", {2}, 0, 2)}, {"c", entry("U8", {1}, 2, 3)}}.dump(),
                  "aac"));
  EXPECT_TRUE(contains(error({{"a", "3.safetensors"}}), "tensor 'c'"));
  EXPECT_TRUE(contains(error({{"a", "1.safetensors"}, {"c", "3.safetensors"}}), "occurs in"));
}

}  // namespace
}  // namespace ringside
