// The real program in difficult surroundings: signals and streams that its parent has changed, a
// reader that stops, limits of the system.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using testing::Program;

class Surroundings : public ProgramTest {
 protected:
  Surroundings() { small_gpt(64, 64, "steps = 3\nwarmup = 1\nglobal_batch = 4\n"); }

  static std::vector<std::string> train(const std::string& scheme, int world,
                                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> out = {"train",   "trial.toml",          "--scheme", scheme,
                                    "--world", std::to_string(world), "--output", "row.json"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  nlohmann::json row() const { return nlohmann::json::parse(folder_.read("row.json")).at("row"); }
};

// If oneDNN got fewer threads than it asked for, it would compute only a part of a product.
TEST_F(Surroundings, VariablesOfOpenMPChangeNoBit) {
  const auto arguments = train("ddp", 2, {"--set", "device.threads=2"});
  ASSERT_EQ(run(arguments).status, 0);
  const nlohmann::json plain = row();
  for (const auto& [name, value] : {std::pair("OMP_THREAD_LIMIT", "1"),
                                    {"OMP_DYNAMIC", "true"},
                                    {"OMP_MAX_ACTIVE_LEVELS", "0"},
                                    {"OMP_NUM_THREADS", "1"}}) {
    const Ended ended = run(arguments, [&, name = name, value = value] { setenv(name, value, 1); });
    ASSERT_EQ(ended.status, 0) << name << ended.err;
    EXPECT_EQ(row().at("loss"), plain.at("loss")) << name;
    EXPECT_EQ(row().at("parameter_hashes"), plain.at("parameter_hashes")) << name;
  }
}

/// Variables that bind the first thread to a core when a library is loaded would bind all ranks.
TEST_F(Surroundings, VariablesThatBindThreadsTakeNoCores) {
  const auto ranks = train("ddp", 2);
  ASSERT_EQ(run(ranks).status, 0);
  const nlohmann::json plain = row();
  const std::string doctor = run({"doctor"}).out;
  for (const auto& [name, value] : {std::pair("OMP_PROC_BIND", "true"),
                                    {"OMP_PROC_BIND", "spread"},
                                    {"OMP_PLACES", "threads"},
                                    {"OMP_PLACES", "{0}"},
                                    {"GOMP_CPU_AFFINITY", "0"}}) {
    const auto prepare = [name = name, value = value] { setenv(name, value, 1); };
    const std::string said =
        fmt::format("ringside: left out of the environment: {}={}, which would bind", name, value);
    const Ended looked = run({"doctor"}, prepare);
    EXPECT_EQ(looked.out, doctor) << name;
    EXPECT_THAT(looked.err, HasSubstr(said));
    const Ended ended = run(ranks, prepare);
    ASSERT_EQ(ended.status, 0) << name << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(said));
    EXPECT_EQ(row().at("load").at("cores"), plain.at("load").at("cores")) << name;
  }
  EXPECT_EQ(run({"doctor"}, [] { setenv("OMP_PROC_BIND", "false", 1); }).err, "");
  EXPECT_EQ(run({"list", "models"}, [] { setenv("OMP_PROC_BIND", "true", 1); }).err, "")
      << "no core is used";
}

/// A mask that the user sets is not undone with what a variable does to it.
TEST_F(Surroundings, TheMaskOfTheUserStays) {
  cpu_set_t allowed, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &allowed)) --last;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  const Ended ended = run({"doctor"}, [&] {
    sched_setaffinity(0, sizeof one, &one);
    setenv("OMP_PLACES", "cores", 1);
  });
  EXPECT_THAT(ended.out, HasSubstr("1 of them for this process"));
  EXPECT_THAT(ended.err, HasSubstr("they may run on 1 core\n"));
}

TEST_F(Surroundings, EndsWhereTheEndsOfItsRanksAreIgnored) {
  const Ended ended = run(train("ddp", 2), [] { std::signal(SIGCHLD, SIG_IGN); });
  EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST_F(Surroundings, ListensToSignalsThatItsParentBlocked) {
  Program program = start(train("ddp", 2, {"--set", "train.steps=100000000"}), [] {
    std::signal(SIGTERM, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
  });
  ASSERT_TRUE(program.wait_for("step"));
  kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.wait().status, 130);
}

TEST_F(Surroundings, InTheBackgroundOfAScriptAnInterruptionIsNotForIt) {
  Program program =
      start(train("ddp", 2, {"--set", "train.steps=100"}), [] { std::signal(SIGINT, SIG_IGN); });
  ASSERT_TRUE(program.wait_for("step"));
  kill(program.pid(), SIGINT);
  EXPECT_EQ(program.wait().status, 0);
}

TEST_F(Surroundings, AClosedStreamIsNoRanksSocket) {
  for (const int closed : {STDIN_FILENO, STDERR_FILENO})
    EXPECT_EQ(run(train("ps", 2), [closed] { close(closed); }).status, 0) << closed;
  const Ended ended = run(train("ps", 2), [] { close(STDOUT_FILENO); });
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.err, "ringside: standard output cannot be written: Bad file descriptor\n");
  EXPECT_EQ(row().at("status"), "ok");
}

TEST_F(Surroundings, AFullOutputIsAnError) {
  const auto full = [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  for (const auto& arguments : {train("single", 1), {"list"}, {"doctor"}, {"--help"}}) {
    const Ended ended = run(arguments, full);
    EXPECT_EQ(ended.status, 1) << arguments[0];
    EXPECT_EQ(ended.err, "ringside: standard output cannot be written: No space left on device\n")
        << arguments[0];
  }
}

/// A pipe that is full and that is not read. end() is the end for writing.
class FullPipe {
 public:
  FullPipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) return;
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    char page[4096] = {};
    while (write(ends_[1], page, sizeof page) > 0) {
    }
    fcntl(ends_[1], F_SETFL, 0);
  }
  ~FullPipe() {
    for (const int end : ends_) close(end);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  int end() const { return ends_[1]; }

 private:
  int ends_[2] = {-1, -1};
};

TEST_F(Surroundings, AReaderThatStopsDoesNotStopTheRun) {
  FullPipe pipe;
  Program program = start(train("ps", 2), [&] {
    dup2(pipe.end(), STDOUT_FILENO);
    dup2(pipe.end(), STDERR_FILENO);
  });
  constexpr int most_looks = 3000;
  for (int i = 0; i < most_looks && !std::filesystem::exists(path("row.json")); ++i)
    poll(nullptr, 0, 10);
  ASSERT_TRUE(std::filesystem::exists(path("row.json")));
  EXPECT_EQ(row().at("status"), "ok");
  // The first SIGINT ends the program's wait for the reader of standard output. The program then
  // waits for the reader of its message on standard error, and another SIGINT ends that wait.
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(program.pid()), &ended, WEXITED | WNOHANG | WNOWAIT) ==
             0 &&
         ended.si_pid == 0) {
    kill(program.pid(), SIGINT);
    poll(nullptr, 0, 10);
  }
  EXPECT_EQ(program.wait().status, 130);
}

/// ZeroMQ tries again until a time-out where it lacks a file descriptor, and so do connections
/// without a loopback interface.
TEST_F(Surroundings, WhatTcpLacksIsNamedAtOnce) {
  const auto tcp =
      train("ps", 2, {"--set", "scheme.ps.transport=tcp", "--set", "train.timeout_s=60"});
  const Ended files = run(tcp, [] {
    const rlimit limit{40, 40};
    setrlimit(RLIMIT_NOFILE, &limit);
  });
  EXPECT_EQ(files.status, 1);
  EXPECT_THAT(files.err,
              HasSubstr("its connections need more file descriptors than RLIMIT_NOFILE = "
                        "40 leaves; raise it to "));
  constexpr int refused = 77;
  const Ended apart = run(tcp, [] {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(refused);
  });
  if (apart.status == refused) GTEST_SKIP() << "the system refuses a network namespace";
  EXPECT_EQ(apart.status, 1);
  EXPECT_THAT(apart.err, HasSubstr("no process can connect to 127.0.0.1 (Network is unreachable): "
                                   "the loopback interface is down; set it up with"));
}

/// The system does not let others look into a process whose program its user may not read.
TEST_F(Surroundings, AProgramThatMayNotBeReadIsNamed) {
  const std::filesystem::path copy = path("ringside");
  std::filesystem::copy_file(RINGSIDE_PROGRAM, copy);
  chmod(copy.c_str(), 0111);
  chmod(path(".").c_str(), 0755);
  const auto as_user = [] {
    constexpr uid_t nobody = 65534;  // root may read everything
    if (geteuid() == 0 && setuid(nobody) != 0) _exit(1);
  };
  Program program(copy, {"compare", "trial.toml"}, folder_.path(), as_user);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.err, "ringside: the program " + copy.string() +
                           " may not be read (Permission denied), and ranks reach each other's "
                           "memory only if it may; run `chmod +r` on it\n");
}

TEST_F(Surroundings, ALimitThatRanksMeetIsNamed) {
  const auto limited = [](decltype(RLIMIT_AS) what, rlim_t value) {
    return [what, value] {
      const rlimit limit{value, value};
      setrlimit(what, &limit);
    };
  };
  const Ended files = run(train("ps", 2), limited(RLIMIT_NOFILE, 12));
  EXPECT_EQ(files.status, 1);
  EXPECT_THAT(files.err, HasSubstr("Too many open files; open files are limited to 12"));
  const Ended size = run(train("ddp", 2), limited(RLIMIT_FSIZE, 4096));
  EXPECT_NE(size.status, 0);
  EXPECT_THAT(size.err, HasSubstr("File too large; files are limited to 4 KB (ulimit -f)"));
  for (const Ended& ended : {files, size})
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
}

}  // namespace
}  // namespace ringside
