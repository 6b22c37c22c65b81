// The pictures of schedules, against those that papers draw.
#include "core/pipeline/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/pipeline/made_schedules.h"

namespace ringside::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string drawn(std::string_view name, int ranks, std::int64_t micro_batches,
                  std::size_t columns = 100, int chunks = 1) {
  const MakerInfo& row = find_maker(name);
  const Schedule schedule = row.make(ranks, std::max(chunks, usual_chunks(row)), micro_batches);
  return picture_text(schedule, simulate(schedule, equal_times(schedule, {1, 1, 1})), columns);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t out = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++out;
  return out;
}

TEST(Picture, TextOf1F1BIsThatOfThePaper) {
  EXPECT_EQ(drawn("1f1b", 2, 3),
            "rank 0 F0 F1       B0--- F2 B1---    B2---\n"
            "rank 1    F0 B0--- F1 B1--- F2 B2---\n"
            "F forward; B backward; a column is 1 s\n");
}

TEST(Picture, TextOfZbH1IsThatOfThePaper) {
  // Qi et al. 2024, figure 3, with three ranks
  EXPECT_EQ(
      drawn("zb_h1", 3, 4),
      "rank 0 F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3\n"
      "rank 1    F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3\n"
      "rank 2       F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3\n"
      "F forward; I backward: input gradient; W backward: weight gradient; a column is 1 s\n");
}

TEST(Picture, SecondStagesOfARankAreInLowerCase) {
  const std::vector<std::string> lines = lines_of(drawn("zb_v", 2, 3));
  EXPECT_THAT(lines[1], HasSubstr("F0 f0"));
  EXPECT_THAT(lines[2], HasSubstr("lower case a rank's second stage"));
}

TEST(Picture, UsualSizesFitAHundredColumns) {
  for (const char* name : {"gpipe", "1f1b", "zb_h1", "zb_h2"}) {
    const std::string text = drawn(name, 4, 8);
    EXPECT_THAT(text, Not(HasSubstr("cut off"))) << name;
    for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 130u) << name;
  }
}

TEST(Picture, WhatDoesNotFitIsCutOffAndSaidSo) {
  const std::string text = drawn("1f1b", 4, 40);
  EXPECT_THAT(text, HasSubstr("\ncut off after 31 of 129 columns\n"));
  const std::vector<std::string> lines = lines_of(text);
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_LE(lines[static_cast<std::size_t>(rank)].size(), 100u);
  EXPECT_THAT(drawn("gpipe", 2, 3, 1), HasSubstr("cut off after 1 of"));
}

TEST(Picture, EveryMakerCanBeDrawnAtEverySize) {
  for (const MadeSchedule& made : made_schedules()) {
    const auto times = simulate(made.schedule, equal_times(made.schedule, {1, 1.7, .3}, .1));
    const std::string text = picture_text(made.schedule, times, 80);
    EXPECT_GE(lines_of(text).size(), static_cast<std::size_t>(made.ranks) + 1);
    for (int rank = 0; rank < made.ranks; ++rank)
      EXPECT_LE(lines_of(text)[static_cast<std::size_t>(rank)].size(), 80u) << made.label();
  }
}

TEST(Picture, SvgHasABoxForEachActionThatComputes) {
  const Schedule schedule = with_sends(find_maker("zb_v").make(3, 2, 5));
  const std::string svg =
      picture_svg(schedule, simulate(schedule, equal_times(schedule, {1, 1, 1})));
  EXPECT_EQ(count_of(svg, "<title>"), 6u * 5 * 3);
  EXPECT_EQ(count_of(svg, "<rect class=\"W pale\""), 3u * 5);
  EXPECT_EQ(count_of(svg, "<text class=\"n n"), 6u * 5 * 3);
  EXPECT_THAT(svg, AllOf(HasSubstr("<title>0F0: 0 s to 1 s</title>"), HasSubstr("rank 2</text>"),
                         HasSubstr("backward: weight gradient"), Not(HasSubstr("backward</text>")),
                         Not(HasSubstr("SEND"))));
  for (const char* tag : {"text", "title", "svg", "style"})
    EXPECT_EQ(
        count_of(svg, std::string("<") + tag + ">") + count_of(svg, std::string("<") + tag + " "),
        count_of(svg, std::string("</") + tag + ">"))
        << tag;
}

TEST(Picture, SvgEscapesTheNameOfTheSchedule) {
  Schedule schedule = find_maker("gpipe").make(2, 1, 2);
  schedule.name = "a<b>&\"\n";
  const std::string svg =
      picture_svg(schedule, simulate(schedule, equal_times(schedule, {1, 1, 1})));
  EXPECT_THAT(svg, HasSubstr("Schedule a&lt;b&gt;&amp;&quot;?:"));
}

}  // namespace
}  // namespace ringside::pipeline
