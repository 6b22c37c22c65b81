#include "core/launch/remote_host.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/launch/launch.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

RunPlan read_without_options(const nlohmann::json& plan) {
  return run_plan_from_json(plan, [](const std::string&) { return Options(); });
}

/// Two agents, which are threads, start ranks that are shell scripts: rank r is a child of agent r.
/// A script exchanges lines of JSON with the launcher over the socket whose file descriptor is $1.
class RemoteHostTest : public ::testing::Test {
 protected:
  void begin(const std::string& script) {
    const std::string read_plan =
        "read -r plan <&$1; case $plan in *'\"rank\":0}') rank=0;; *) rank=1;; esac; ";
    for (int agent = 0; agent < 2; ++agent) {
      int sockets[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
      hosts_.push_back(std::make_unique<RemoteHost>(std::make_unique<JsonLine>(sockets[0]),
                                                    "agent " + std::to_string(agent)));
      agents_.emplace_back([this, agent, socket = sockets[1], words = read_plan + script] {
        JsonLine line(socket);
        LocalHost host({"/bin/bash", {"-c", words, "rank"}, {"PATH=/usr/bin:/bin"}});
        ended_well_[agent] =
            ServiceEnd::over ==
            serve_ranks(line, host,
                        {.read = read_without_options,
                         .answer = [](const nlohmann::json& question) -> nlohmann::json {
                           if (question == "why") throw Error("nobody knows");
                           return question;
                         },
                         .stopped = [this, agent] { return stops_[agent].load(); }});
      });
    }
  }
  ~RemoteHostTest() override { end(); }
  void end() {
    hosts_.clear();
    agents_.clear();
  }

  LaunchResult run(const std::function<void()>& on_output = [] {}) {
    RunPlan plan;
    plan.scheme = "x";
    for (int r = 0; r < 2; ++r) {
      plan.ranks.push_back({.rank = r, .worker = r});
      plan.homes.push_back({"host" + std::to_string(r), "10.0.0.1", r});
    }
    plan.world = 2;
    return launch(plan, {hosts_[0].get(), hosts_[1].get()},
                  {.on_output =
                       [&](const std::string& text) {
                         shown_ += text;
                         on_output();
                       }},
                  [] { return false; });
  }

  std::vector<std::unique_ptr<RemoteHost>> hosts_;
  std::vector<std::jthread> agents_;
  std::array<std::atomic<bool>, 2> ended_well_{}, stops_{};
  std::string shown_;
};

TEST_F(RemoteHostTest, RanksFindEachOthersValuesAndReturnTheirRecords) {
  begin(R"(
    if [ $rank = 0 ]; then printf '{"set":["where","here"]}\n' >&$1; fi
    printf '{"get":"where"}\n' >&$1
    read -r answer <&$1
    printf '{"record":{"is":%s,"heard":%s}}\n' $rank "$answer" >&$1)");
  const LaunchResult result = run();
  EXPECT_EQ(result.error, "");
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(result.records[r]["is"], r);
    EXPECT_EQ(result.records[r]["heard"]["value"], nlohmann::json({"where", "here"}));
  }
  end();
  EXPECT_TRUE(ended_well_[0]);
  EXPECT_TRUE(ended_well_[1]);
}

TEST_F(RemoteHostTest, ARankThatFailsIsNamedWithItsHostAndTheOthersAreEnded) {
  begin(R"(
    if [ $rank = 1 ]; then printf '{"error":"out of ink","time":1}\n' >&$1; exit 1; fi
    read -r never <&$1)");
  EXPECT_EQ(run().error, "rank 1 (worker) on host1: out of ink");
}

TEST_F(RemoteHostTest, ARankThatIsKilledIsTheCauseOfWhatOthersComplainAbout) {
  begin(R"(
    if [ $rank = 1 ]; then echo 'no more ink' >&2; kill -9 $$; fi
    printf '{"error":"rank 1 has gone","time":1}\n' >&$1; exit 1)");
  EXPECT_EQ(run().error,
            "rank 1 (worker) on host1 was killed by signal 9 (Killed); the last line that it "
            "wrote: no more ink");
  EXPECT_EQ(shown_, "no more ink\n");
}

/// The rank goes on once the launcher has said that it was stopped, and ends once it has said that
/// it goes on.
TEST_F(RemoteHostTest, ARankThatASignalStopsIsNamedAndSoIsThatItGoesOn) {
  const testing::TemporaryFolder folder;
  const std::string process = folder.path() / "process", may_end = folder.path() / "may end";
  ASSERT_EQ(mkfifo(may_end.c_str(), 0600), 0);
  begin(fmt::format(R"(
    if [ $rank = 1 ]; then echo $$ >'{}'; kill -STOP $$; read -r word <'{}'; fi
    printf '{{"record":{{}}}}\n' >&$1)",
                    process, may_end));
  bool goes_on = false, ends = false;
  const auto follow = [&] {
    if (!goes_on && shown_.find("was stopped") != std::string::npos) {
      goes_on = true;
      pid_t rank = 0;
      std::ifstream(process) >> rank;
      ASSERT_GT(rank, 0);
      kill(rank, SIGCONT);
    }
    if (!ends && shown_.find("goes on after") != std::string::npos) {
      ends = true;
      std::ofstream(may_end) << "end\n";
    }
  };
  EXPECT_EQ(run(follow).error, "");
  EXPECT_THAT(shown_,
              ::testing::MatchesRegex(
                  "rank 1 \\(worker\\) on host1 was stopped by a signal; others wait for it, "
                  "[^\n]*\nrank 1 \\(worker\\) on host1 goes on after [0-9]+.[0-9] s\n"));
}

TEST_F(RemoteHostTest, ARankWhoseAgentIsLostIsLost) {
  begin("[ $rank = 1 ] && echo started; read -r never <&$1");
  const auto stop_its_agent = [this] { stops_[1] = true; };
  EXPECT_EQ(run(stop_its_agent).error,
            "rank 1 (worker) on host1 is lost: agent 1 cannot be reached any more");
  EXPECT_TRUE(hosts_[1]->lost());
  EXPECT_FALSE(hosts_[1]->lost_idle());
}

TEST_F(RemoteHostTest, AnAgentThatIsLostWithoutRanksIsNoticedToo) {
  begin("");
  EXPECT_FALSE(hosts_[0]->lost_idle());
  stops_[0] = true;
  while (!hosts_[0]->lost_idle()) std::this_thread::yield();
  EXPECT_TRUE(hosts_[0]->lost());
  EXPECT_EQ(testing::complaint([&] { hosts_[0]->ask("x", "thinks", 1); }),
            "agent 0 cannot be reached any more");
}

TEST_F(RemoteHostTest, ARankThatTheSystemRefusesToStartIsNamed) {
  begin("read -r never <&$1");
  rlimit before{}, none{};
  getrlimit(RLIMIT_NOFILE, &before);
  none = before;
  none.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &none);
  const LaunchResult result = run();
  setrlimit(RLIMIT_NOFILE, &before);
  // Neither agent can start its rank, and each says so.
  EXPECT_THAT(result.error,
              ::testing::ContainsRegex("on host[01] did not start: cannot make a socket"));
}

TEST_F(RemoteHostTest, AnAgentAnswersQuestions) {
  begin("");
  EXPECT_EQ(hosts_[0]->ask({{"is", 7}}, "thinks", 10), nlohmann::json({{"is", 7}}));
  EXPECT_EQ(testing::complaint([&] { hosts_[0]->ask("why", "thinks", 10); }),
            "agent 0: nobody knows");
}

/// The two ends of a connection of which one stands still: it says nothing, or only what the test
/// says. The clock of the other jumps whenever it is looked at.
class StandingStill : public ::testing::Test {
 protected:
  StandingStill() {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    here_ = std::make_unique<JsonLine>(sockets[0]);
    there_ = std::make_unique<JsonLine>(sockets[1]);
  }
  std::function<double()> jumping_clock() {
    return [this] { return now_ += 2 * beat_every_s; };
  }
  std::unique_ptr<RemoteHost> launcher_end() {
    return std::make_unique<RemoteHost>(
        std::move(here_), "agent 2 on host1 (10.77.0.2)",
        AgentWait{.interrupted = [this] { return interrupted_; },
                  .say = [this](const std::string& line) { said_.push_back(line); },
                  .now = jumping_clock()});
  }
  ServiceEnd serve(double first_word_s) {
    LocalHost host({"/bin/false", {}, {}});
    return serve_ranks(*here_, host,
                       {.read = read_without_options,
                        .answer = [](const nlohmann::json& question) { return question; },
                        .stopped = [] { return false; },
                        .first_word_s = first_word_s,
                        .say = [this](const std::string& line) { said_.push_back(line); },
                        .launcher = "the leader",
                        .now = jumping_clock()});
  }

  double now_ = 0;
  bool interrupted_ = false;
  std::vector<std::string> said_;
  std::unique_ptr<JsonLine> here_, there_;
};

TEST_F(StandingStill, AnAgentThatIsAskedIsNamed) {
  const auto host = launcher_end();
  EXPECT_EQ(testing::complaint([&] { host->ask("data", "reads its data", 600); }),
            "agent 2 on host1 (10.77.0.2) stands still: it has said nothing for 5 s");
  EXPECT_TRUE(host->lost());
  EXPECT_LT(now_, 30);
  EXPECT_THAT(said_, ::testing::ElementsAre("waiting for agent 2 on host1 (10.77.0.2), which reads "
                                            "its data, for 600 s at most"));
}

TEST_F(StandingStill, AnAgentThatIsAliveButDoesNotAnswerHasTheWholeTime) {
  const auto host = launcher_end();
  std::jthread alive([this] {
    while (there_->send({{"alive", true}})) std::this_thread::yield();
  });
  EXPECT_EQ(testing::complaint([&] { host->ask("data", "reads its data", 600); }),
            "agent 2 on host1 (10.77.0.2) has not answered within 600 s");
  EXPECT_FALSE(host->lost());
  host->drop();  // which ends the thread
}

TEST_F(StandingStill, OneInterruptEndsTheWaitForAnAgent) {
  const auto host = launcher_end();
  interrupted_ = true;
  EXPECT_EQ(testing::complaint([&] { host->ask("data", "reads its data", 600); }), "interrupted");
  host->drop();  // it would say the end, and wait for an answer
}

TEST_F(StandingStill, AnAgentWithoutRanksIsLost) {
  const auto host = launcher_end();
  for (int looks = 0; !host->lost_idle(); ++looks) ASSERT_LT(looks, 10);
  EXPECT_EQ(host->loss(), "stands still: it has said nothing for 5 s");
}

TEST_F(StandingStill, ALauncherIsLeft) {
  there_->send({{"alive", true}});
  EXPECT_EQ(serve(600), ServiceEnd::silent);
  EXPECT_LT(now_, 30);
  EXPECT_THAT(said_, ::testing::ElementsAre(::testing::ContainsRegex(
                         "^the leader has said nothing for 2.5 s: it stands still, or a link "
                         "is down; it is given up after 5 s$")));
}

TEST(Silence, IsNamedOnceAndSoIsItsEnd) {
  Silence silence(0);
  EXPECT_EQ(silence.news(1, "it"), "");
  silence.seconds(2);
  EXPECT_EQ(silence.news(2.4, "it"), "");
  EXPECT_THAT(silence.news(2.7, "it"), ::testing::HasSubstr("it has said nothing for 2.5 s"));
  EXPECT_EQ(silence.news(3, "it"), "");
  silence.end(3.5);
  EXPECT_EQ(silence.news(3.6, "it"), "it is heard again");
  EXPECT_EQ(silence.news(5, "it"), "");
}

/// When the silence of a process is named on a link with this round trip, over which data of its
/// host come until `flows_until`; looked at ten times a second.
double named_after(double round_trip_s, double flows_until, double gives_up = 60) {
  double now = 0;
  Silence silence(0, [&] {
    return LinkFacts{round_trip_s, static_cast<std::uint64_t>(10 * std::min(now, flows_until))};
  });
  while (now < gives_up && silence.news(now, "it").empty()) now += 0.1;
  return now;
}

TEST(Silence, DoesNotCountWhileDataComeOverALinkThatIsFull) {
  EXPECT_NEAR(named_after(0.001, 60), 2.6, 0.15) << "ranks live longer than an agent that stands";
  EXPECT_NEAR(named_after(1, 0), 3.6, 0.15) << "the way may take a second more";
  EXPECT_NEAR(named_after(1, 6), 6 + 3.6, 0.4);
  EXPECT_NEAR(named_after(1, 60), Silence::longest_excuse_s + 3.6, 0.4);
}

TEST(Silence, EndsWithWhatIsHeard) {
  double now = 0;
  int looks = 0;
  Silence silence(0, [&] {
    ++looks;
    return LinkFacts{1, static_cast<std::uint64_t>(now)};
  });
  for (; now < 10; now += 0.1) {
    silence.end(now);
    for (const double end = now + 1.3; now < end; now += 0.1) silence.seconds(now);
  }
  EXPECT_EQ(looks, 0) << "heartbeats come in time";
  for (const double end = now + 10; now < end; now += 0.1) silence.seconds(now);
  EXPECT_LT(silence.seconds(now), 1.5);
  silence.end(now);
  EXPECT_EQ(silence.seconds(now), 0);
}

/// Bytes over a connection of this host with itself are known to the system.
TEST(HostLinks, SeeDataThatCome) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(0x7f4d4d02)}, .sin_zero = {}};
  socklen_t length = sizeof here;
  auto* const address = reinterpret_cast<sockaddr*>(&here);  // 127.77.77.2, which no other test has
  ASSERT_EQ(bind(listener, address, length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, address, &length), 0);
  const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(one, address, length), 0);
  const int other = accept(listener, nullptr, nullptr);
  const auto links = links_with("127.77.77.2");
  const std::uint64_t before = links().segments;
  ASSERT_EQ(send(other, "word", 4, 0), 4);
  char word[4];
  ASSERT_EQ(recv(one, word, 4, MSG_WAITALL), 4);
  EXPECT_EQ(links().segments, before + 1);
  EXPECT_GT(links().round_trip_s, 0);
  EXPECT_EQ(links_with("127.77.77.3")().segments, 0U);
  EXPECT_EQ(links_with("")().segments, 0U);
  for (const int file : {listener, one, other}) close(file);
}

TEST_F(StandingStill, ALauncherMayTakeLongerToSayItsFirstWord) {
  EXPECT_EQ(serve(20), ServiceEnd::unheard);
  EXPECT_GT(now_, 20);
  EXPECT_LT(now_, 40);
}

TEST_F(StandingStill, WhatIsNoLauncherIsTold) {
  const std::string greeting("\xFF\0\0\0\0\0\0\0\x01\x7F", 10);  // of ZeroMQ
  EXPECT_EQ(send(there_->socket(), greeting.data(), greeting.size(), 0), 10);
  there_.reset();
  EXPECT_EQ(serve(600), ServiceEnd::unheard);
}

TEST_F(RemoteHostTest, ClocksOfOneHostAgreeWithinTheErrorThatIsStated) {
  begin("");
  const ClockDifference clock = hosts_[0]->clock();
  EXPECT_LE(std::abs(clock.ahead_s), clock.error_s);
  EXPECT_LT(clock.error_s, 1);
}

}  // namespace
}  // namespace ringside
