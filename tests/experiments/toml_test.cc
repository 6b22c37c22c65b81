#include "experiments/runner/config/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

using Path = std::vector<std::string>;

/// The text of the error that reading a file with this text throws.
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
  EXPECT_EQ(values[0].data.text(), "1");
  EXPECT_EQ(values[1].data.text(), "2.0");
  EXPECT_EQ(values[2].data.text(), R"([1, [2, "x"], { a = true }])");
  EXPECT_EQ(values[3].data.text(), "\"text\"");
  EXPECT_TRUE(values[6].data.is_table());
}

TEST(Toml, ListsOfTablesKeepThePlacesOfTheirValues) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.toml", R"([[outer.one]]
x = 1
deep = { "a.b" = [2] }
[[outer.one]]
[[outer.one]]
[[outer.one.inner]]
y = 2
)");
  const auto values = read_toml(file);
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(values[0].path, (Path{"outer", "one"}));
  EXPECT_TRUE(values[0].data.is_list());
  const auto& tables = values[0].elements;
  ASSERT_EQ(tables.size(), 3U);
  EXPECT_EQ(tables[0].place.substr(file.size()), ":1");
  EXPECT_EQ(tables[1].place.substr(file.size()), ":4");
  ASSERT_EQ(tables[0].values.size(), 2U);
  EXPECT_EQ(tables[0].values[1].path, (Path{"deep", "a.b"}));
  EXPECT_EQ(tables[0].values[1].place.substr(file.size()), ":3");
  EXPECT_EQ(tables[0].values[1].data.elements().at(0).text(), "2");
  EXPECT_TRUE(tables[1].values.empty());
  EXPECT_EQ(tables[2].values.at(0).elements.at(0).values.at(0).place.substr(file.size()), ":7");
  EXPECT_TRUE(read_toml(folder.write("b.toml", "a = [{ b = 1 }, 2]\n"))[0].elements.empty());
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
  EXPECT_THROW(toml_data("{" + dotted(200000) + " = 1}", "p"), Error);
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
  EXPECT_EQ(toml_data(path, "p").text(), "\"" + path + "\"");
}

TEST(Toml, AValueOfTheCommandLineMayBeABareWord) {
  const auto text = [](const char* typed) { return toml_data(typed, "p").text(); };
  EXPECT_EQ(text("3"), "3");
  EXPECT_EQ(text("1e-2"), "0.01");
  EXPECT_EQ(text("\"3\""), "\"3\"");
  EXPECT_EQ(text("['a', 'b']"), "[\"a\", \"b\"]");
  EXPECT_EQ(text("../data/text.txt"), "\"../data/text.txt\"");
  EXPECT_EQ(text("1979-05-27"), "\"1979-05-27\"");
  EXPECT_THROW(text("[ddp]"), Error);
  EXPECT_THROW(text(""), Error);
}

TEST(Toml, ItsTextIsReadBackAsTheSameValue) {
  const TemporaryFolder folder;
  const TomlData data(nlohmann::json::parse(
      R"({"a": [1, 2.0, 1e300, -0.1, true], "b c": {"": "q\"\\\u0001\u007f\u00e9\n", "d": []}})"));
  const auto file = folder.write("a.toml", "x = [" + data.text() + "]\n");
  EXPECT_EQ(read_toml(file).at(0).data.text(), "[" + data.text() + "]");
  EXPECT_THAT(data.text(), HasSubstr("[1, 2.0, 1e+300, -0.1, true]"));
  EXPECT_THAT(data.text(), HasSubstr("\\u007f"));
  double number = 0.1;
  EXPECT_EQ(toml_text(&number), "0.1");
  number = std::nan("");
  EXPECT_EQ(toml_text(&number), "nan");
  EXPECT_EQ(toml_key("a100-sxm_80"), "a100-sxm_80");
  EXPECT_EQ(toml_key("a b"), "\"a b\"");
  EXPECT_EQ(toml_key(""), "\"\"");
}

TEST(Toml, AFieldTakesItsTypeOrTheErrorSaysWhatIsWanted) {
  const auto complaint = [](const std::string& text, auto out) {
    return testing::complaint([&] { toml_data(text, "").put(&out, "f:1", "k"); });
  };
  EXPECT_EQ(complaint("3", 0.0), "nothing");
  EXPECT_EQ(complaint("3", std::vector<std::int64_t>{}), "nothing");
  EXPECT_EQ(complaint("1.5", std::int64_t{}),
            "f:1: k must be an integer, but 1.5 is a number with a fraction");
  EXPECT_EQ(complaint("nan", std::int64_t{}), "f:1: k must be an integer, but nan is not finite");
  EXPECT_EQ(complaint("-inf", 0.0), "f:1: k must be a finite number, but -inf is not finite");
  EXPECT_EQ(complaint("yes", false), "f:1: k must be true or false, but \"yes\" is a string");
  EXPECT_EQ(complaint("[1]", std::string()), "f:1: k must be a string, but [1] is a list");
  EXPECT_EQ(complaint(std::string(60, 'x'), 0.0),
            "f:1: k must be a finite number, but \"" + std::string(36, 'x') + "... is a string");
  std::vector<std::string> words;
  EXPECT_TRUE(toml_data("word", "").put(&words));
  EXPECT_THAT(words, ElementsAre("word"));
  std::vector<std::pair<double, double>> points;
  EXPECT_TRUE(toml_data("[[1, 0.5], [2, 3]]", "").put(&points));
  EXPECT_THAT(points, ElementsAre(std::pair(1.0, 0.5), std::pair(2.0, 3.0)));
  for (const char* none : {"[1, 2]", "[[1, 2, 3]]", "[[1]]", "[[1, 'x']]", "7"})
    EXPECT_FALSE(toml_data(none, "").put(&points)) << none;
  EXPECT_THAT(points, ElementsAre(std::pair(1.0, 0.5), std::pair(2.0, 3.0)));
}

}  // namespace
}  // namespace ringside::runner
