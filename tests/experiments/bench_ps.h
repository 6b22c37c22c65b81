// A fixture for tests of `ringside bench ps`.
#pragma once

#include <gmock/gmock.h>
#include <signal.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/experiments/program_test.h"

namespace ringside {

class BenchPs : public ProgramTest {
 protected:
  static std::vector<std::string> bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "ps"});
    return arguments;
  }
  nlohmann::json results_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--json", "figures.json"});
    const testing::Ended ended = run(bench(arguments));
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, ::testing::HasSubstr("# Out of bounds values : 0 OK"));
    std::ifstream in(path("figures.json"));
    return nlohmann::json::parse(in).at("results");
  }
  /// Blocks until the program has started so many processes.
  static std::vector<pid_t> wait_for_children(const testing::Program& program, std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      std::vector<pid_t> children = program.children();
      if (children.size() >= count) return children;
      if (std::chrono::steady_clock::now() > deadline) return {};
      std::this_thread::yield();
    }
  }
  /// Blocks until the process has slept 100 times, more often than its start takes, so that its
  /// bench is under way. Returns false if that takes a minute.
  static bool wait_for_rounds(pid_t process) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (long sleeps = 0; sleeps < 100;) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::ifstream status("/proc/" + std::to_string(process) + "/status");
      for (std::string word; status >> word;)
        if (word == "voluntary_ctxt_switches:") status >> sleeps;
      std::this_thread::yield();
    }
    return true;
  }
  static void expect_gone(const std::vector<pid_t>& processes) {
    for (const pid_t process : processes) {
      EXPECT_EQ(kill(process, 0), -1);
      EXPECT_EQ(errno, ESRCH);
    }
  }
};

}  // namespace ringside
