#include "core/launch/launch.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/complaint.h"
#include "tests/support/memory_limit.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

/// Launches ranks that are shell scripts. A script exchanges lines of JSON with the launcher, as
/// ranks do, over the socket whose file descriptor is $1.
LaunchResult launch_scripts(
    int ranks, const std::string& script,
    const std::function<bool()>& interrupted = [] { return false; }) {
  RunPlan plan;
  for (int r = 0; r < ranks; ++r)
    plan.ranks.push_back({.rank = r, .worker = r, .environment = {"SHADE=" + std::to_string(r)}});
  const std::string read_plan =
      "read -r plan <&$1; rank=${plan#*'\"rank\":'}; "
      "case $plan in *'\"rank\":0}') rank=0;; *) rank=1;; esac; ";
  return launch(plan, {"/bin/bash", {"-c", read_plan + script, "rank"}, {"PATH=/usr/bin:/bin"}}, {},
                interrupted);
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(LaunchTest, ReturnsTheRecordOfEveryRank) {
  const auto result = launch_scripts(2, R"(printf '{"record":{"is":%s}}\n' $rank >&$1)");
  EXPECT_EQ(result.error, "");
  ASSERT_EQ(result.records.size(), 2u);
  EXPECT_EQ(result.records[0]["is"], 0);
  EXPECT_EQ(result.records[1]["is"], 1);
}

TEST(LaunchTest, ARankHasTheProgramsEnvironmentAndItsOwn) {
  const auto result =
      launch_scripts(2, R"(printf '{"record":{"path":"%s","shade":%s}}\n' "$PATH" $SHADE >&$1)");
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(result.records[r]["path"], "/usr/bin:/bin");
    EXPECT_EQ(result.records[r]["shade"], r);
  }
}

TEST(LaunchTest, ARankDoesNotHaveWhatItsPlanLeavesOut) {
  RunPlan plan;
  plan.ranks = {{.rank = 0, .worker = 0, .environment = {"SHADE"}}};
  const auto result =
      launch(plan,
             {"/bin/bash",
              {"-c", R"(printf '{"record":{"shade":"%s"}}\n' "${SHADE-none}" >&$1)", "rank"},
              {"PATH=/usr/bin:/bin", "SHADE=1"}},
             {}, [] { return false; });
  EXPECT_EQ(result.records.at(0).at("shade"), "none");
}

TEST(LaunchTest, TunablesOfTheUserAndOfThePlanBothCount) {
  RunPlan plan;
  plan.ranks = {{.rank = 0, .worker = 0, .environment = {"GLIBC_TUNABLES=glibc.a.b=1"}}};
  const auto result =
      launch(plan,
             {"/bin/bash",
              {"-c", R"(printf '{"record":{"tunables":"%s"}}\n' "$GLIBC_TUNABLES" >&$1)", "rank"},
              {"PATH=/usr/bin:/bin", "GLIBC_TUNABLES=glibc.c.d=2"}},
             {}, [] { return false; });
  EXPECT_EQ(result.records.at(0).at("tunables"), "glibc.a.b=1:glibc.c.d=2");
}

/// Launches a run whose ranks are another program: a shell script, which gets $1 and so on from the
/// launcher and is found as `command` says.
LaunchResult launch_other(const std::string& script, const std::string& command = "other",
                          int ranks = 1, bool all_ranks = false) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("other", "#!/bin/bash\n" + script);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  RunPlan plan;
  for (int r = 0; r < ranks; ++r) plan.ranks.push_back({.rank = r, .worker = r});
  plan.program =
      OtherProgram{command == "FILE" ? file : command, "peers/ringside_peers", all_ranks};
  return launch(
      plan,
      {"/proc/self/exe", {"rank"}, {"PATH=/nowhere:" + folder.path().string() + ":/usr/bin:/bin"}},
      {}, [] { return false; });
}

TEST(LaunchTest, AnotherProgramIsToldItsScriptAndOurProgramAndTheSocket) {
  for (const char* command : {"other", "FILE"}) {
    const auto result =
        launch_other(R"-(printf '{"record":["%s","%s"]}\n' "$1" "$(readlink $2)" >&$3)-", command);
    EXPECT_EQ(result.error, "");
    EXPECT_TRUE(result.records[0][0].get<std::string>().ends_with("/peers/ringside_peers"));
    EXPECT_EQ(result.records[0][1], std::filesystem::read_symlink("/proc/self/exe").string());
  }
}

TEST(LaunchTest, AnotherProgramThatIsNotThereIsNamed) {
  const auto complaint_about = [](const std::string& command) {
    return testing::complaint([&] { launch_other("", command); });
  };
  EXPECT_EQ(complaint_about("no-such-python"),
            "'no-such-python', which runs the ranks of this scheme, is in no folder of PATH");
  EXPECT_EQ(complaint_about("/etc/passwd"),
            "'/etc/passwd', which runs the ranks of this scheme, is no program");
}

TEST(LaunchTest, OneProcessOfAnotherProgramMayRunAllRanks) {
  const auto result =
      launch_other(R"(printf '{"record":[{"is":0},{"is":1}]}\n' >&$3)", "other", 2, true);
  EXPECT_EQ(result.error, "");
  ASSERT_EQ(result.records.size(), 2u);
  EXPECT_EQ(result.records[1]["is"], 1);
}

TEST(LaunchTest, WhatARankKeepsForTheUserComesWithTheResultEvenOfARunThatFails) {
  RunPlan plan;
  plan.ranks = {{.rank = 0, .worker = 0}};
  const auto result = launch(
      plan,
      {"/bin/bash",
       {"-c",
        R"(printf '{"set":["kept/why","late"]}\n{"set":["group/a","b"]}\n{"error":"x"}\n' >&$1)",
        "rank"},
       {"PATH=/usr/bin:/bin"}},
      {}, [] { return false; });
  EXPECT_EQ(result.error, "rank 0 (worker): x");
  EXPECT_EQ(result.kept, (std::map<std::string, std::string>{{"why", "late"}}));
}

TEST(LaunchTest, WhatARankWritesIsTheLaunchersToShow) {
  RunPlan plan;
  plan.ranks = {{.rank = 0, .worker = 0}};
  std::string shown;
  const auto result =
      launch(plan,
             {"/bin/bash",
              {"-c", "echo out of the printer; echo 'no more ink' >&2; exit 3", "rank"},
              {"PATH=/usr/bin:/bin"}},
             {.on_output = [&](const std::string& text) { shown += text; }}, [] { return false; });
  EXPECT_EQ(shown, "out of the printer\nno more ink\n");
  EXPECT_EQ(result.error,
            "rank 0 (worker) ended with exit code 3 before its work was done; the last line "
            "that it wrote: no more ink");
}

/// Libraries that are refused memory may crash instead of saying so.
TEST(LaunchTest, ACrashUnderALimitOfMemoryNamesTheLimit) {
  const testing::MemoryLimit limit;
  for (const char* signal : {"SEGV", "ABRT", "BUS"}) {
    const std::string error = launch_scripts(1, std::string("kill -") + signal + " $$").error;
    EXPECT_TRUE(error.starts_with("rank 0 (worker) was killed by signal")) << error;
    EXPECT_TRUE(error.ends_with("; " + limit.text())) << error;
  }
}

TEST(LaunchTest, EndsWhereSomethingElseCollectsItsRanks) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const auto result = launch_scripts(1, "exit 3");
  signal(SIGCHLD, before);
  EXPECT_EQ(result.error,
            "rank 0 (worker) ended; its exit status is unknown, because something other than the "
            "launcher collected it");
}

TEST(LaunchTest, StoreAnswersAcrossRanksInEitherOrder) {
  const auto result = launch_scripts(2, R"(
    if [ $rank = 0 ]; then
      printf '{"get":"b"}\n{"set":["a","from 0"]}\n' >&$1
    else
      printf '{"set":["b","from 1"]}\n{"get":"a"}\n' >&$1
    fi
    read -r answer <&$1
    printf '{"record":%s}\n' "$answer" >&$1)");
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.records[0]["value"][1], "from 1");
  EXPECT_EQ(result.records[1]["value"][1], "from 0");
}

TEST(LaunchTest, NamesARankThatIsKilledAndEndsTheOthers) {
  LaunchResult result;
  const double seconds = seconds_of([&] {
    result = launch_scripts(2, R"(
      if [ $rank = 1 ]; then printf '{"progress":{"step":7}}\n' >&$1; kill -SEGV $$; fi
      read -r never <&$1)");
  });
  EXPECT_EQ(result.error,
            "rank 1 (worker) was killed by signal 11 (Segmentation fault) after step 7");
  EXPECT_LT(seconds, 5);
}

// The rank counts what the system would count, and dies as if by the system.
TEST(LaunchTest, ARankThatIsKilledForLackOfMemorySaysSo) {
  const testing::TemporaryFolder folder;
  folder.write("cgroup", "0::/\n");
  folder.write("mountinfo",
               "29 22 0:26 / " + folder.path().string() + " rw - cgroup2 cgroup2 rw\n");
  folder.write("memory.max", "64000000\n");
  const std::string events = folder.write("memory.events", "oom 0\noom_kill 1\n");
  LocalHost host({"/bin/bash",
                  {"-c", "printf 'oom 1\\noom_kill 2\\n' >" + events + "; kill -KILL $$", "rank"},
                  {"PATH=/usr/bin:/bin"}},
                 ControlGroup([&](const std::string& file) {
                   return read_system_file(file.starts_with("/proc/self/")
                                               ? folder.path() / file.substr(11)
                                               : std::filesystem::path(file));
                 }));
  RunPlan plan;
  plan.ranks = {{.rank = 0, .worker = 0}};
  EXPECT_EQ(launch(plan, {&host}, {}, [] { return false; }).error,
            "rank 0 (worker) was killed by signal 9 (Killed); its control group ran out of "
            "memory, which is limited to 64 MB: use a smaller model or batch, or fewer ranks, or "
            "raise the limit");
}

TEST(LaunchTest, ARankThatDiesAfterItsRecordHasFailed) {
  const auto result = launch_scripts(1, R"(printf '{"record":{}}\n' >&$1; kill -ABRT $$)");
  EXPECT_EQ(result.error, "rank 0 (worker) was killed by signal 6 (Aborted)");
}

TEST(LaunchTest, EndsRanksThatDoNotListen) {
  LaunchResult result;
  const double seconds = seconds_of([&] {
    result = launch_scripts(2, R"(
      if [ $rank = 1 ]; then exit 3; fi
      trap '' TERM; read -r never <&$1)");
  });
  EXPECT_EQ(result.error, "rank 1 (worker) ended with exit code 3 before its work was done");
  EXPECT_LT(seconds, 5);
}

TEST(LaunchTest, PassesOnWhatARankSays) {
  const auto result = launch_scripts(2, R"([ $rank = 0 ] && printf '{"error":"out of ink"}\n' >&$1
                           read -r never <&$1)");
  EXPECT_EQ(result.error, "rank 0 (worker): out of ink");
}

TEST(LaunchTest, ARankThatWasKilledExplainsWhatAnotherSaidOfIt) {
  const auto result = launch_scripts(2, R"(
      if [ $rank = 0 ]; then
        printf '{"get":"ready"}\n' >&$1; read -r answer <&$1
        printf '{"error":"rank 1 is gone"}\n' >&$1
      else
        trap 'kill -SEGV $$' TERM; printf '{"set":["ready",""]}\n' >&$1
      fi
      read -r never <&$1)");
  EXPECT_EQ(result.error, "rank 1 (worker) was killed by signal 11 (Segmentation fault)");
}

TEST(LaunchTest, TheErrorThatCameFirstIsToldWhicheverIsReadFirst) {
  // dd sends both lines in a single write, so the launcher reads them together.
  const auto result = launch_scripts(2, R"(
    [ $rank = 0 ] && printf '{"error":"it is gone","time":2.5}\n{"error":"out of ink","time":1.5}\n' |
      dd bs=4096 iflag=fullblock status=none >&$1
    read -r never <&$1)");
  EXPECT_EQ(result.error, "rank 0 (worker): out of ink");
}

TEST(LaunchTest, ARankThatCannotStartIsNamed) {
  RunPlan plan;
  plan.ranks = {{.rank = 0, .worker = 0}};
  std::fflush(nullptr);  // ThreadSanitizer's _exit() writes out what a copy of this process holds
  const auto result =
      launch(plan, RankProgram{"/nonexistent/program", {}, {}}, {}, [] { return false; });
  EXPECT_EQ(result.error, "rank 0 (worker) ended with exit code 127 before its work was done");
}

TEST(LaunchTest, InterruptionEndsAllRanks) {
  const auto result = launch_scripts(2, "read -r never <&$1", [] { return true; });
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.error, "interrupted");
}

}  // namespace
}  // namespace ringside
