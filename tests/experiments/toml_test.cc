#include "experiments/config/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

using Path = std::vector<std::string>;

/// What reading a file with this text complains about.
std::string complaint(const std::string& text) {
  const TemporaryFolder folder;
  return testing::complaint([&] { read_toml(folder.write("a.toml", text)); });
}

TEST(Toml, IsAListOfValuesInTheOrderOfTheFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.toml", R"(z = 1
b = 2.0
[late.inner]
list = [1, [2, "x"], {a = true}]
[early]
key.dotted = "text"
inline = { two = 2, one = -1 }
[empty]
)");
  const auto values = read_toml(file);
  ASSERT_EQ(values.size(), 7U);
  std::vector<Path> paths;
  std::vector<std::string> lines, tables;
  for (const auto& value : values) {
    paths.push_back(value.path);
    lines.push_back(value.place.substr(file.size()));
    tables.push_back(value.table.substr(file.size()));
  }
  EXPECT_THAT(paths, ElementsAre(Path{"z"}, Path{"b"}, Path{"late", "inner", "list"},
                                 Path{"early", "key", "dotted"}, Path{"early", "inline", "two"},
                                 Path{"early", "inline", "one"}, Path{"empty"}));
  EXPECT_THAT(lines, ElementsAre(":1", ":2", ":4", ":6", ":7", ":7", ":8"));
  EXPECT_EQ(tables[2], ":3");
  EXPECT_EQ(tables[6], ":8");
  EXPECT_TRUE(values[0].value.is_number_integer());
  EXPECT_TRUE(values[1].value.is_number_float());
  EXPECT_EQ(values[2].value, nlohmann::json::parse(R"([1, [2, "x"], {"a": true}])"));
  EXPECT_EQ(values[3].value, "text");
  EXPECT_EQ(values[6].value, nlohmann::json::object());
}

TEST(Toml, ThatIsNoneIsRefusedByFileAndLine) {
  EXPECT_THAT(complaint("\na = = 1\n"), HasSubstr("a.toml:2: "));
  EXPECT_THAT(complaint("a = 1\na = 2\n"), HasSubstr("a.toml:2: "));
  EXPECT_THAT(complaint("\n\na = 1979-05-27\n"),
              EndsWith("a.toml:3: no key takes a date or time; write text in quotes"));
  EXPECT_THAT(complaint("a = [07:32:00]\n"),
              EndsWith("a.toml:1: no key takes a date or time; write text in quotes"));
  EXPECT_EQ(complaint(""), "nothing");
  const TemporaryFolder folder;
  EXPECT_THROW(read_toml(folder.path() / "absent.toml"), Error);
  EXPECT_THROW(read_toml(folder.path()), Error);
}

TEST(Toml, KeysOfManyPartsAreRefused) {
  const auto dotted = [](int parts) {
    std::string key = "a";
    for (int i = 1; i < parts; ++i) key += i % 2 == 0 ? ".a" : " . \"b.b\"";
    return key;
  };
  EXPECT_EQ(complaint("[" + dotted(16) + "]\n"), "nothing");
  EXPECT_THAT(complaint("\n[" + dotted(17) + "]\n"), EndsWith(":2: a key has more than 16 parts"));
  EXPECT_THAT(complaint("[" + dotted(200000) + "]\n"), EndsWith("more than 16 parts"));
  EXPECT_THAT(complaint(dotted(200000) + " = 1\n"), EndsWith("more than 16 parts"));
  EXPECT_THAT(complaint("x = {" + dotted(200000) + " = 1}\n"), EndsWith("more than 16 parts"));
  EXPECT_THAT(complaint("[" + dotted(10) + "]\n" + dotted(10) + " = 1\n"),
              HasSubstr("more than 16 tables are nested"));
  EXPECT_THROW(toml_value("{" + dotted(200000) + " = 1}", "p"), Error);
  const std::string dots(100, '.');
  EXPECT_EQ(complaint("a = \"" + dots + "\" # " + dots + "\nb = '''\n" + dots + "'''\nc = '" +
                      dots + "'\nd = [" +
                      [] {
                        std::string list;
                        for (int i = 0; i < 100; ++i) list += "0.5, ";
                        return list;
                      }() +
                      "]\n"),
            "nothing");
  const std::string path = "../../../../../../../../../../../../../../../../../../text.txt";
  EXPECT_EQ(toml_value(path, "p"), path);
}

TEST(Toml, AValueOfTheCommandLineMayBeABareWord) {
  EXPECT_EQ(toml_value("3", "p"), 3);
  EXPECT_EQ(toml_value("1e-2", "p"), 1e-2);
  EXPECT_EQ(toml_value("\"3\"", "p"), "3");
  EXPECT_EQ(toml_value("[\"a\", \"b\"]", "p"), nlohmann::json::parse(R"(["a", "b"])"));
  EXPECT_EQ(toml_value("../data/text.txt", "p"), "../data/text.txt");
  EXPECT_EQ(toml_value("1979-05-27", "p"), "1979-05-27");
  EXPECT_THROW(toml_value("[ddp]", "p"), Error);
  EXPECT_THROW(toml_value("", "p"), Error);
}

TEST(Toml, ItsTextIsReadBackAsTheSameValue) {
  const TemporaryFolder folder;
  const auto value = nlohmann::json::parse(
      R"({"a": [1, 2.0, 1e300, -0.1, true], "b c": {"": "q\"\\\u0001\u007f\u00e9\n", "d": []}})");
  const auto file = folder.write("a.toml", "x = [" + toml_text(value) + "]\n");
  EXPECT_EQ(read_toml(file).at(0).value.at(0), value);
  EXPECT_TRUE(read_toml(file).at(0).value[0]["a"][1].is_number_float());
  EXPECT_EQ(toml_text(nlohmann::json(0.1)), "0.1");
  EXPECT_EQ(toml_text(nlohmann::json(std::nan(""))), "nan");
  EXPECT_EQ(toml_key("a100-sxm_80"), "a100-sxm_80");
  EXPECT_EQ(toml_key("a b"), "\"a b\"");
  EXPECT_EQ(toml_key(""), "\"\"");
}

TEST(Toml, ATargetTakesItsTypeOrSaysWhatIsWanted) {
  const std::string place = "f:1", key = "k";
  const auto complaint = [&](const nlohmann::json& value, auto out) {
    return testing::complaint([&] { TomlTarget{value, place, key}.to(out); });
  };
  EXPECT_EQ(complaint(3, 0.0), "nothing");
  EXPECT_EQ(complaint(3, std::vector<std::int64_t>{}), "nothing");
  EXPECT_EQ(complaint(1.5, std::int64_t{}),
            "f:1: k must be an integer, but 1.5 is a number with a fraction");
  EXPECT_EQ(complaint("yes", false), "f:1: k must be true or false, but \"yes\" is a string");
  EXPECT_EQ(complaint(nlohmann::json::array({1}), std::string()),
            "f:1: k must be a string, but [1] is a list");
  EXPECT_EQ(complaint(std::string(60, 'x'), 0.0),
            "f:1: k must be a finite number, but \"" + std::string(36, 'x') + "... is a string");
  std::vector<std::string> one;
  TomlTarget{"word", place, key}.to(one);
  EXPECT_THAT(one, ElementsAre("word"));
}

}  // namespace
}  // namespace ringside
