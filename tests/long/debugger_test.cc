// A debugger that holds a worker for a minute: nobody is named or given up, and no bit changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;

/// Holds all threads of a process, as a debugger does, until the end of this object.
class Debugger {
 public:
  explicit Debugger(pid_t process) {
    const std::string tasks = "/proc/" + std::to_string(process) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      const pid_t thread = std::stoi(task.path().filename());
      if (ptrace(PTRACE_ATTACH, thread, nullptr, nullptr) != 0) continue;
      waitpid(thread, nullptr, __WALL);
      held_.push_back(thread);
    }
  }
  ~Debugger() {
    for (const pid_t thread : held_) ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
  }
  Debugger(const Debugger&) = delete;
  Debugger& operator=(const Debugger&) = delete;

  bool holds() const { return !held_.empty(); }

 private:
  std::vector<pid_t> held_;
};

class HeldWorkers : public ProgramTest {
 protected:
  HeldWorkers() { small_gpt(16, 16, "steps = 4000\nwarmup = 1\nglobal_batch = 4\n"); }

  std::unique_ptr<Program> train(const std::string& scheme) const {
    return std::make_unique<Program>(
        RINGSIDE_PROGRAM,
        std::vector<std::string>{"train", "trial.toml", "--scheme", scheme, "--world", "2"},
        folder_.path());
  }
  static std::string hash_in(const Ended& ended) {
    const std::size_t at = ended.out.find("parameters     ");
    return at == std::string::npos ? ended.err : ended.out.substr(at, 50);
  }
};

TEST_F(HeldWorkers, GoOnAfterAMinuteAsIfNothingHadBeen) {
  const std::vector<std::string> schemes = {"ddp", "fsdp", "ps"};
  std::vector<std::string> whole;
  for (const std::string& scheme : schemes) whole.push_back(hash_in(train(scheme)->wait()));
  std::vector<std::unique_ptr<Program>> runs;
  std::vector<std::unique_ptr<Debugger>> debuggers;
  for (const std::string& scheme : schemes) {
    runs.push_back(train(scheme));
    ASSERT_TRUE(runs.back()->wait_for("step "));
    const std::vector<pid_t> ranks = runs.back()->children();
    ASSERT_GE(ranks.size(), 2U);
    debuggers.push_back(std::make_unique<Debugger>(ranks[1]));
    EXPECT_TRUE(debuggers.back()->holds());
  }
  std::this_thread::sleep_for(std::chrono::minutes(1));
  debuggers.clear();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Ended ended = runs[i]->wait();
    EXPECT_EQ(ended.status, 0) << schemes[i] << ": " << ended.err;
    EXPECT_EQ(hash_in(ended), whole[i]) << schemes[i];
    EXPECT_THAT(ended.err, Not(HasSubstr("stands still"))) << schemes[i];
    EXPECT_THAT(ended.err, Not(HasSubstr("stopped"))) << schemes[i];
  }
}

}  // namespace
}  // namespace ringside
