#include "experiments/tools/watch/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cmath>
#include <csignal>
#include <map>
#include <set>
#include <sstream>

#include "tests/experiments/told_events.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::tools::watch {
namespace {

using ::testing::HasSubstr;
using testing::ScriptedComparison;

using Labels = std::map<std::string, std::string>;

struct Family {
  std::string type, help;
  std::map<Labels, double> samples;
};
using Families = std::map<std::string, Family>;

/// Reads Prometheus' text format 0.0.4, and refuses text that the format does not allow.
class Reader {
 public:
  static Families read(const std::string& text) {
    Reader reader;
    if (!text.ends_with('\n')) throw Error("the last line has no line feed");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      reader.line_ = line;
      reader.at_ = 0;
      if (line.starts_with("# HELP "))
        reader.help();
      else if (line.starts_with("# TYPE "))
        reader.type();
      else if (!line.starts_with('#') && !line.empty())
        reader.sample();
    }
    return reader.families_;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw Error("{}: {}", line_, why); }
  char next() const { return at_ < line_.size() ? line_[at_] : '\0'; }
  void expect(char c) {
    if (next() != c) refuse(fmt::format("no '{}' at column {}", c, at_));
    ++at_;
  }
  std::string name(bool with_colon) {
    const std::size_t begin = at_;
    const auto fits = [&](char c) {
      return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (with_colon && c == ':') ||
             (at_ > begin && std::isdigit(static_cast<unsigned char>(c)));
    };
    while (fits(next())) ++at_;
    if (at_ == begin) refuse("no name");
    return line_.substr(begin, at_ - begin);
  }
  /// The family of this name, whose lines must stand together.
  Family& family(const std::string& of) {
    if (of != last_ && families_.contains(of)) refuse("the family's lines do not stand together");
    last_ = of;
    return families_[of];
  }
  void help() {
    at_ = 7;
    Family& of = family(name(true));
    expect(' ');
    if (!of.help.empty()) refuse("a second HELP");
    of.help = line_.substr(at_);
  }
  void type() {
    at_ = 7;
    Family& of = family(name(true));
    expect(' ');
    if (!of.type.empty()) refuse("a second TYPE");
    if (!of.samples.empty()) refuse("TYPE after samples");
    of.type = line_.substr(at_);
    static const std::set<std::string> types = {"counter", "gauge", "histogram", "summary",
                                                "untyped"};
    if (!types.contains(of.type)) refuse("unknown type");
  }
  std::string label_value() {
    std::string out;
    expect('"');
    for (; next() != '"'; ++at_) {
      if (next() == '\0') refuse("the value has no end");
      if (next() != '\\') {
        out += next();
        continue;
      }
      ++at_;
      if (next() == 'n')
        out += '\n';
      else if (next() == '\\' || next() == '"')
        out += next();
      else
        refuse("unknown escape");
    }
    expect('"');
    return out;
  }
  void sample() {
    Family& of = family(name(true));
    Labels labels;
    if (next() == '{') {
      do {
        ++at_;
        const std::string key = name(false);
        expect('=');
        if (!labels.emplace(key, label_value()).second) refuse("a label twice");
      } while (next() == ',');
      expect('}');
    }
    expect(' ');
    const std::string number = line_.substr(at_);
    std::size_t read = 0;
    const double value = number == "NaN"    ? std::nan("")
                         : number == "+Inf" ? INFINITY
                         : number == "-Inf" ? -INFINITY
                                            : std::stod(number, &read);
    if (std::isfinite(value) && read != number.size()) refuse("no number");
    if (of.type.empty() || of.help.empty()) refuse("no TYPE or HELP before it");
    if (!of.samples.emplace(labels, value).second) refuse("the same labels twice");
  }

  std::string line_, last_;
  std::size_t at_ = 0;
  Families families_;
};

class Scraped : public ::testing::Test {
 protected:
  Families read() const { return Reader::read(folder_.read("metrics.prom")); }
  static Labels labels(const std::string& label, int world) {
    return {{"experiment", "trial"},
            {"case", label},
            {"world", std::to_string(world)},
            {"purpose", "asked"},
            {"simulated", "false"}};
  }
  double one(const std::string& name) const {
    return read().at(name).samples.at({{"experiment", "trial"}});
  }

  testing::TemporaryFolder folder_;
  OpenFolder files_{folder_.path()};
  MetricsFile metrics_{files_, "metrics.prom"};
  ScriptedComparison comparison_{{&metrics_}};
};

TEST_F(Scraped, TheFileHasWhatWasTold) {
  comparison_.begin();
  EXPECT_EQ(one("ringside_runs_planned"), 3);
  EXPECT_EQ(one("ringside_runs_done"), 0);
  EXPECT_EQ(one("ringside_comparison_running"), 1);
  EXPECT_FALSE(read().contains("ringside_seconds_left")) << "nobody knows yet";
  EXPECT_FALSE(read().contains("ringside_loss"));

  comparison_.make(0, 8);
  comparison_.feed.predict(comparison_.plans[1], {.step_ms = 480});
  comparison_.feed.begin_run(1, 1);
  comparison_.now += 2;
  comparison_.feed.step({1, 2.75, 0.4, {}});
  Families families = read();
  for (const auto& [name, family] : families) {
    EXPECT_THAT(name, ::testing::StartsWith("ringside_"));
    EXPECT_EQ(family.type, name.ends_with("_total") ? "counter" : "gauge") << name;
  }
  EXPECT_EQ(one("ringside_runs_done"), 1);
  EXPECT_EQ(one("ringside_run_failures_total"), 0);
  EXPECT_EQ(one("ringside_seconds_left"), 10) << "six seconds a run";
  EXPECT_EQ(one("ringside_last_update_timestamp_seconds"), 1.7e9 + comparison_.now);
  const auto value = [&](const std::string& name, const std::string& label, int world) {
    return families.at(name).samples.at(labels(label, world));
  };
  EXPECT_EQ(value("ringside_case_runs_done", "single", 1), 1);
  EXPECT_EQ(value("ringside_case_runs_planned", "ddp", 2), 2);
  EXPECT_EQ(value("ringside_step_seconds", "single", 1), 0.25);
  EXPECT_EQ(value("ringside_samples_per_second", "single", 1), 8);
  EXPECT_EQ(value("ringside_loss", "single", 1), 1.5);
  EXPECT_EQ(value("ringside_memory_peak_bytes", "single", 1), 2e6);
  EXPECT_EQ(value("ringside_step_seconds", "ddp", 2), 0.4) << "of the newest step";
  EXPECT_EQ(value("ringside_samples_per_second", "ddp", 2), 5);
  EXPECT_EQ(value("ringside_loss", "ddp", 2), 2.75);
  EXPECT_EQ(value("ringside_predicted_step_seconds", "ddp", 2), 0.48);
  EXPECT_EQ(families.at("ringside_memory_peak_bytes").samples.size(), 1u);

  comparison_.feed.end_run(failed_row(comparison_.plans[1], "rank 1 gave up"), true, false);
  EXPECT_EQ(one("ringside_run_failures_total"), 1);
  EXPECT_EQ(one("ringside_runs_done"), 2);
  families = read();
  EXPECT_FALSE(families.at("ringside_step_seconds").samples.contains(labels("ddp", 2)));
  comparison_.make(2, 4);
  comparison_.feed.end({});
  EXPECT_EQ(one("ringside_comparison_running"), 0);
  EXPECT_EQ(one("ringside_runs_done"), 3);
  families = read();
  EXPECT_EQ(value("ringside_samples_per_second", "ddp", 2), 4);
}

TEST_F(Scraped, LabelsAreEscaped) {
  const std::string awkward = "a \"quoted\" \\path\\ of\ntwo lines, {x=1}";
  comparison_.plans[0].label = awkward;
  comparison_.begin();
  EXPECT_TRUE(read().at("ringside_case_runs_done").samples.contains(labels(awkward, 1)));
}

TEST_F(Scraped, NumbersThatAreNotFiniteHaveTheirNames) {
  comparison_.begin();
  Standing standing;
  standing.hear(comparison_.told.events[0]);
  standing.hear({1, runner::StepDone{.run = comparison_.plans[0].id, .loss = INFINITY}});
  standing.hear({1, runner::StepDone{.run = comparison_.plans[1].id, .loss = std::nan("")}});
  const std::string text = metrics_text(standing, 1);
  EXPECT_EQ(Reader::read(text).at("ringside_loss").samples.at(labels("single", 1)), INFINITY);
  EXPECT_THAT(text, HasSubstr(" NaN\n"));
}

TEST_F(Scraped, OfStepsTheFileIsWrittenOnceASecond) {
  comparison_.begin();
  comparison_.feed.begin_run(0, 1);
  const auto began = one("ringside_last_update_timestamp_seconds");
  for (int step = 1; step <= 5; ++step) {
    comparison_.now += 0.19;
    comparison_.feed.step({step, 2, 0.19, {}});
  }
  EXPECT_EQ(one("ringside_last_update_timestamp_seconds"), began);
  comparison_.now += 0.19;
  comparison_.feed.step({5, 2, 0.19, {}});
  EXPECT_GT(one("ringside_last_update_timestamp_seconds"), began);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST(MetricsFile, SaysThatItCannotBeWrittenButNeverForAStep) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "gone");
  const OpenFolder gone(folder.path() / "gone");
  std::filesystem::remove(folder.path() / "gone");
  MetricsFile metrics(gone, "metrics.prom");
  EXPECT_THAT(testing::complaint([&] {
                metrics.hear({1, runner::ComparisonBegan{"trial"}});
              }),
              HasSubstr("metrics.prom: cannot be written: its folder has been removed"));
  EXPECT_NO_THROW(metrics.hear({9, runner::StepDone{"ddp-w2-r0"}}));
}

TEST(MetricsFile, LeavesNothingHalfWrittenOnAFullDisk) {
  const testing::TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit little{100, 100};
    setrlimit(RLIMIT_FSIZE, &little);
    const OpenFolder files(folder.path());
    MetricsFile metrics(files, "metrics.prom");
    const std::string text = testing::complaint([&] {
      metrics.hear({1, runner::ComparisonBegan{"trial"}});
    });
    _exit(text.find("metrics.prom: cannot be written") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace ringside::tools::watch
