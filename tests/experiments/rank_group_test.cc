// The bench's and a rank's end of the lines between them.
#include "experiments/tools/bench/rank_group.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/launch/local_host.h"
#include "core/launch/rank_link.h"
#include "experiments/tools/bench/connected_ranks.h"
#include "experiments/tools/bench/own_processes.h"
#include "experiments/tools/bench/rank/serve.h"
#include "tests/support/complaint.h"

namespace ringside::tools::bench {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Does what the bench says over a line.
bool serve_line(int socket, int rank, BenchRank& served) {
  RankLink link(std::make_unique<JsonLine>(socket));
  return serve({[&](double timeout_s) { return link.hear(timeout_s); },
                [&](const nlohmann::json& value) { link.send(value); }},
               rank, served);
}

/// Ranks as threads, each of which owns its socket.
class RankGroups : public ::testing::Test {
 protected:
  ~RankGroups() override { end_ranks(); }

  /// For tests whose own variables the ranks use: a rank may still do so after its last answer.
  void end_ranks() {
    group_.reset();
    for (std::thread& thread : std::exchange(threads_, {})) thread.join();
  }

  void rank(const std::function<void(int socket)>& body) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    sockets_.push_back(ends[0]);
    threads_.emplace_back(body, ends[1]);
  }
  /// A rank that says the first message, and after each command the next; then it ends.
  void rank_that_says(const std::vector<nlohmann::json>& messages) {
    rank([messages](int socket) {
      JsonLine line(socket);
      for (const nlohmann::json& message : messages) {
        line.send(message);
        line.receive();
      }
    });
  }
  /// A rank that answers nothing.
  void rank_that_waits(const nlohmann::json& first) {
    rank([first](int socket) {
      JsonLine line(socket);
      if (!first.is_null()) line.send(first);
      while (line.receive()) continue;
    });
  }
  /// The bench's end of the ranks so far.
  std::unique_ptr<RankHost> host() {
    std::vector<std::unique_ptr<JsonLine>> lines;
    for (const int socket : std::exchange(sockets_, {}))
      lines.push_back(std::make_unique<JsonLine>(socket, 64 << 10));
    world_ = static_cast<int>(lines.size());
    return std::make_unique<ConnectedRanks>(
        std::move(lines), std::vector<std::string>{"a", "b"},
        [this](const std::string& cause) { said_.push_back(cause); });
  }
  RankGroup& group(const Patience& patience = {}, const StoreLimits& limits = {}) {
    auto ranks = host();
    group_ = std::make_unique<RankGroup>("bench comm: madeup", std::move(ranks), world_, patience,
                                         std::vector<std::string>(), limits);
    return *group_;
  }

  std::vector<int> sockets_;
  int world_ = 0;
  std::vector<std::string> said_;  // of ranks that were cut off
  std::vector<std::thread> threads_;
  std::unique_ptr<RankGroup> group_;
};

/// A rank that serves others, which fails.
class FailingServer : public BenchRank {
 public:
  void make_arrays(const std::string&, std::int64_t) override {}
  bool is_timed() const override { return false; }
  void look() override { throw Error("server 0: out of order"); }
  void begin_turn(const std::string&) override {}
  void fill() override {}
  void meet() override {}
  void call(const std::string&) override {}
  std::int64_t count_wrong() override { return 0; }
};

TEST_F(RankGroups, SayAtOnceWhatFailsInARankThatServes) {
  rank_that_waits({{"hello", 0}});
  rank([](int socket) {
    FailingServer server;
    EXPECT_FALSE(serve_line(socket, 1, server));
  });
  // The other rank never answers, so only the server can end the wait.
  EXPECT_THAT(complaint([&] { group().turn("any", 1); }),
              HasSubstr("rank 1: server 0: out of order"));
}

TEST_F(RankGroups, TimeCallsFromTheLastBeginToTheLastEnd) {
  rank_that_says({{{"hello", 1}},
                  {{"ready", true}},
                  {{"times", nlohmann::json::array({10, 10.5, 20, 20.25})}},
                  {{"wrong", 3}}});
  rank_that_says({{{"hello", 0}},
                  {{"ready", true}},
                  {{"times", nlohmann::json::array({10.125, 10.25, 19, 20.5})}},
                  {{"wrong", 4}}});
  RankGroup& ranks = group();
  ranks.prepare("all_reduce", 8);
  EXPECT_THAT(ranks.turn("way", 2),
              ElementsAre(DoubleNear(0.375e6, 1e-3), DoubleNear(0.5e6, 1e-3)));
  EXPECT_EQ(ranks.count_wrong(), 7);
}

TEST_F(RankGroups, TimeCallsFromTheFirstBeginWithoutRanksThatOnlyServe) {
  rank_that_says({{{"hello", 1}}, {{"times", nlohmann::json::array({10, 10.5})}}});
  rank_that_says({{{"hello", 2}}, {{"times", nlohmann::json::array({})}}});
  rank_that_says({{{"hello", 0}}, {{"times", nlohmann::json::array({10.125, 10.25})}}});
  EXPECT_THAT(group().turn("way", 1, RankGroup::From::first_begin),
              ElementsAre(DoubleNear(0.5e6, 1e-3)));
}

TEST_F(RankGroups, CallRanksByTheirNames) {
  rank_that_says({{{"hello", 0}}, {{"error", "no memory"}}});
  auto one = host();
  RankGroup ranks("bench ps", std::move(one), world_, {}, {"server 7"});
  EXPECT_EQ(complaint([&] { ranks.turn("way", 1); }), "bench ps: server 7: no memory");
}

TEST_F(RankGroups, SayWhichRankComplains) {
  rank_that_says({{{"hello", 1}}, {{"ready", true}}});
  rank_that_says({{{"hello", 0}}, {{"error", "no memory"}}});
  RankGroup& ranks = group();
  EXPECT_EQ(complaint([&] { ranks.prepare("all_reduce", 8); }),
            "bench comm: madeup: rank 0: no memory");
}

TEST_F(RankGroups, SayWhichRankEndsWithoutWaitingForTheOthers) {
  rank_that_says({{{"hello", 1}}});
  rank_that_waits({{"hello", 0}});
  RankGroup& ranks = group();
  EXPECT_EQ(complaint([&] { ranks.turn("way", 1); }),
            "bench comm: madeup: rank 1 ended during 'turn way 1': its connection is closed");
}

TEST_F(RankGroups, SayWhichRankEndsAfterItHasAnswered) {
  rank_that_waits({{"hello", 0}});
  rank([](int socket) {
    JsonLine line(socket);
    line.send({{"hello", 1}});
    line.receive();
    line.send({{"times", nlohmann::json::array()}});
  });
  RankGroup& ranks = group();
  EXPECT_EQ(complaint([&] { ranks.turn("way", 1); }),
            "bench comm: madeup: rank 1 ended during 'turn way 1': its connection is closed");
}

TEST_F(RankGroups, NameWhoDoesNotAnswerInTime) {
  rank_that_waits(nullptr);
  EXPECT_THAT(complaint([&] { group({.timeout_s = 0.01}); }),
              AllOf(HasSubstr("madeup: no answer to 'start' within 0.01 s from rank 0"),
                    HasSubstr("--timeout")));
}

TEST_F(RankGroups, EndWhenTheUserInterrupts) {
  rank_that_says({});
  EXPECT_EQ(complaint([&] { group({.interrupted = [] { return true; }}); }), "interrupted");
}

TEST_F(RankGroups, RefuseWhatNoRankSays) {
  rank_that_says({{{"hello", 0}}});
  rank_that_says({{{"hello", 0}}});
  EXPECT_THAT(complaint([&] { group(); }), HasSubstr("2 ranks, of which one says 'hello 0'"));
  rank_that_says({{{"hello", 0}}, {{"steady", true}}});
  EXPECT_THAT(complaint([&] { group().prepare("broadcast", 8); }),
              HasSubstr(R"(rank 0 answers '{"steady":true}' to 'array broadcast 8')"));
  rank_that_says({{{"hello", 0}}, {{"times", nlohmann::json::array({2, 1})}}});
  EXPECT_THAT(complaint([&] { group().turn("way", 1); }), HasSubstr("'times [2,1]' are not those"));
}

TEST_F(RankGroups, ServeTheStoreOfTheirRanks) {
  for (const int number : {0, 1})
    rank([number](int socket) {
      RankLink link(std::make_unique<JsonLine>(socket));
      link.store().set(fmt::format("of {}", number), "a value");
      EXPECT_EQ(link.store().get(fmt::format("of {}", 1 - number), 60), "a value");
      link.send({{"hello", number}});
      link.hear();
    });
  EXPECT_EQ(group().note(), "");
}

TEST_F(RankGroups, EndInGoodOrder) {
  rank_that_says({{{"hello", 0}}});
  rank_that_waits({{"hello", 1}});
  RankGroup& ranks = group();
  EXPECT_THAT(ranks.close(0.2), ElementsAre("rank 1"));
}

TEST_F(RankGroups, CutOffWhoSendsNonsenseALongLineOrTooMuch) {
  const auto cut_off = [&](const nlohmann::json& message) {
    rank_that_says({message});
    EXPECT_THAT(complaint([&] { group({}, {.bytes = 1000, .questions = 1}); }),
                HasSubstr("rank 0 ended during 'start'"));
    EXPECT_THAT(said_, ElementsAre(HasSubstr("a is cut off: ")));
    return std::exchange(said_, {}).at(0);
  };
  cut_off({{"set", 5}});
  EXPECT_THAT(cut_off({{"set", {"key", std::string(200'000, 'x')}}}), HasSubstr("too long"));
  EXPECT_THAT(cut_off({{"set", {"key", std::string(2'000, 'x')}}}), HasSubstr("1000 bytes"));
}

TEST_F(RankGroups, CutOffWhoDoesNotRead) {
  std::promise<void> over;
  rank([end = over.get_future().share()](int socket) {
    JsonLine line(socket);
    line.send({{"set", {"large", std::string(30'000, 'x')}}});
    for (int i = 0; i < 100; ++i) line.send({{"get", "large"}});
    end.wait();
  });
  EXPECT_THAT(complaint([&] { group(); }), HasSubstr("rank 0 ended during 'start'"));
  EXPECT_THAT(said_, ElementsAre("a is cut off: it does not read"));
  over.set_value();
}

/// Counts what the bench makes it do.
class Counting : public CommRank {
 public:
  void prepare(const CommOperation& operation, std::int64_t count) override {
    done_ += fmt::format("prepare {} {},", operation.name, count);
  }
  void fill() override { done_ += "fill,"; }
  void meet() override { done_ += "meet,"; }
  void call(const std::string& way) override { done_ += way + ","; }
  std::int64_t count_wrong() override { return 5; }
  std::string done_;
};

TEST_F(RankGroups, MakeRanksDoWhatIsMeasured) {
  Counting counting;
  rank([&](int socket) { serve_line(socket, 0, counting); });
  RankGroup& ranks = group();
  ranks.prepare("all_gather", 6);
  for (const double us : ranks.turn("way", 2)) EXPECT_GE(us, 0);
  EXPECT_EQ(ranks.count_wrong(), 5);
  end_ranks();
  EXPECT_EQ(counting.done_, "prepare all_gather 6,fill,meet,way,meet,fill,meet,way,meet,");
}

/// As a library that writes to the socket of a rank that has died makes the system do.
TEST(RanksOfThisProgram, GoOnAfterASignalOfAClosedSocket) {
  auto host = std::make_unique<LocalHost>(
      RankProgram{.file = RINGSIDE_PROGRAM, .arguments = {"rank"}, .environment = {}});
  LocalHost& processes = *host;
  const RunPlan plan = plan_of_ranks({}, 2, 60);
  for (const int rank : {0, 1}) {
    host->start(plan, rank);
    host->send(rank, {{"comm", {{"algorithms", {"native"}}}}});
  }
  RankGroup ranks("bench comm", std::move(host), 2, {});
  for (const int rank : {0, 1}) processes.signal(rank, SIGPIPE);
  ranks.prepare("all_reduce", 8);
  EXPECT_EQ(ranks.turn("native", 1).size(), 1u);
  EXPECT_EQ(ranks.count_wrong(), 0);
  ranks.close();
}

}  // namespace
}  // namespace ringside::tools::bench
