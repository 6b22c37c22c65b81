// A fixture for tests of the real program.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/some_text.h"
#include "tests/support/temporary_folder.h"

namespace ringside {

/// Runs the program in a temporary folder that contains text.txt.
class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() { folder_.write("text.txt", testing::some_text(20'000)); }

  void experiment(const std::string& text) const { folder_.write("trial.toml", text); }
  /// Writes trial.toml, in which a small GPT learns text.txt. `train` holds the lines of the table
  /// [train], and may go on with further tables.
  void small_gpt(int width, int context, const std::string& train) const {
    experiment("[model]\nlayers = 1\nheads = 2\nwidth = " + std::to_string(width) + "\ncontext = " +
               std::to_string(context) + "\n[data]\npath = \"text.txt\"\n[train]\n" + train);
  }

  /// Starts the program. Its process calls `prepare` before it executes the program.
  testing::Program start(
      const std::vector<std::string>& arguments,
      const std::function<void()>& prepare = [] {}) const {
    return {RINGSIDE_PROGRAM, arguments, folder_.path(), prepare};
  }
  /// Does the same, and blocks until the program has ended.
  testing::Ended run(
      const std::vector<std::string>& arguments,
      const std::function<void()>& prepare = [] {}) const {
    return start(arguments, prepare).wait();
  }

  /// What `train` says of a run of trial.toml that it refuses.
  std::string refusal_at(const std::string& scheme, const std::string& world,
                         const std::vector<std::string>& settings) const {
    std::vector<std::string> words = {"train", "trial.toml", "--scheme", scheme, "--world", world};
    for (const std::string& one : settings) words.insert(words.end(), {"--set", one});
    const testing::Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << ended.out;
    return ended.err;
  }

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  testing::TemporaryFolder folder_;
};

}  // namespace ringside
