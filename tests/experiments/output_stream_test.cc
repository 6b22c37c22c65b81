#include "experiments/tools/cli/output_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/tools/cli/waiting_text.h"
#include "experiments/tools/watch/event_lines.h"

namespace ringside {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string taken(tools::cli::WaitingText& text, std::size_t at_once = 7) {
  std::string out;
  while (!text.empty()) {
    const std::string next(text.front(at_once));
    EXPECT_LE(next.size(), at_once);
    out += next;
    text.pop(next.size());
  }
  return out;
}

TEST(WaitingText, IsReadAsItCame) {
  tools::cli::WaitingText text(100);
  std::string all, read;
  for (int i = 0; i < 50; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    text.append(line);
    all += line;
    if (i % 3 == 0) read += taken(text);
  }
  EXPECT_EQ(read + taken(text), all);
}

TEST(WaitingText, TheMiddleOfTooMuchIsLeftOut) {
  tools::cli::WaitingText text(1000);
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    text.append(line);
    all += line;
  }
  const std::string read = taken(text);
  EXPECT_LT(read.size(), 1200u);
  const std::size_t notice = read.find("ringside: ");
  ASSERT_NE(notice, std::string::npos);
  const std::size_t rest = read.find('\n', notice) + 1;
  const std::size_t left_out = all.size() - notice - (read.size() - rest);
  EXPECT_THAT(read.substr(notice), StartsWith("ringside: " + std::to_string(left_out) + " bytes"));
  EXPECT_EQ(all.substr(0, notice), read.substr(0, notice));
  EXPECT_EQ(all.substr(notice + left_out), read.substr(rest));
  EXPECT_THAT(read.substr(rest), StartsWith("line ")) << "the newest text begins with a whole line";
  EXPECT_GT(notice, 400u) << "half of the space is for the oldest text";
  EXPECT_GT(read.size() - rest, 200u) << "and the newest text has at least a quarter";
  text.append("and on\n");
  EXPECT_EQ(taken(text), "and on\n");
}

TEST(WaitingText, TheLineThatSaysSoStandsAlone) {
  tools::cli::WaitingText text(40);
  text.append("no end of line");
  text.append(std::string(100, 'x'));
  EXPECT_THAT(taken(text), HasSubstr("no end of line\nringside: 90 bytes of output are left out"));
}

TEST(WaitingText, LinesOfJsonStayLinesOfJson) {
  tools::cli::WaitingText text(1000, left_out_event);
  for (int i = 0; i < 1000; ++i) text.append(fmt::format("{{\"line\": {}}}\n", i));
  std::istringstream lines(taken(text));
  std::size_t left_out = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto read = nlohmann::json::parse(line);
    if (read.contains("event")) left_out = read.at("bytes");
  }
  EXPECT_GT(left_out, 10'000u);
}

std::string read_all(int file) {
  std::string text;
  char chunk[4096];
  for (ssize_t n; (n = read(file, chunk, sizeof chunk)) > 0;)
    text.append(chunk, static_cast<std::size_t>(n));
  return text;
}

TEST(OutputStream, HoldsBoundedTextForAReaderWhoHasStopped) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  tools::cli::OutputStream stream(
      ends[1], [] { return false; }, 1 << 16);
  for (int i = 0; i < 100'000; ++i) stream << "line " << i << "\n";
  auto finished = std::async(std::launch::async, [&] {
    const int status = stream.finish();
    close(ends[1]);
    return status;
  });
  const std::string text = read_all(ends[0]);  // begins when everything has been printed
  EXPECT_EQ(finished.get(), 0);
  close(ends[0]);
  EXPECT_LT(text.size(), 1u << 18) << "the pipe's own 64 KB and the stream's";
  EXPECT_THAT(text, StartsWith("line 0\nline 1\n"));
  EXPECT_THAT(text, HasSubstr(" bytes of output are left out here"));
  EXPECT_THAT(text, EndsWith("line 99998\nline 99999\n"));
}

}  // namespace
}  // namespace ringside
