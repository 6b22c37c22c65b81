// The bench's and a rank's end of the lines between them.
#include "experiments/tools/bench/rank_group.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "core/base/error.h"
#include "experiments/tools/bench/rank/serve.h"
#include "tests/support/complaint.h"

namespace ringside::tools::bench {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NoProcesses : public RankProcesses {
 public:
  std::string cause_of_end(int rank) override { return "the end of " + std::to_string(rank); }
};

/// Ranks as threads, each of which owns its socket.
class RankGroups : public ::testing::Test {
 protected:
  ~RankGroups() override {
    group_.reset();  // ends the threads
    for (std::thread& thread : threads_) thread.join();
  }

  void rank(const std::function<void(int socket)>& body) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    sockets_.push_back(ends[0]);
    threads_.emplace_back(body, ends[1]);
  }
  /// A rank that says the first line, and after each command the next; then it ends.
  void rank_that_says(const std::vector<std::string>& lines) {
    rank([lines](int socket) {
      for (const std::string& line : lines) {
        (void)!send(socket, (line + "\n").data(), line.size() + 1, MSG_NOSIGNAL);
        char c = 0;
        while (::read(socket, &c, 1) == 1 && c != '\n') {
        }
      }
      close(socket);
    });
  }
  /// A rank that answers nothing.
  void rank_that_waits(int number) {
    rank([number](int socket) {
      const std::string hello = "hello " + std::to_string(number) + "\n";
      (void)!send(socket, hello.data(), hello.size(), MSG_NOSIGNAL);
      char c = 0;
      while (::read(socket, &c, 1) == 1) {
      }
      close(socket);
    });
  }
  RankGroup& group(Patience patience = {}) {
    group_ = std::make_unique<RankGroup>("bench comm: madeup", std::exchange(sockets_, {}),
                                         std::make_unique<NoProcesses>(), std::move(patience));
    return *group_;
  }

  std::vector<int> sockets_;
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
  rank_that_waits(0);
  rank([](int socket) {
    FailingServer server;
    EXPECT_FALSE(serve(socket, 1, server));
  });
  // The other rank never answers, so only the server can end the wait.
  EXPECT_THAT(complaint([&] { group().turn("any", 1); }),
              HasSubstr("rank 1: server 0: out of order"));
}

TEST_F(RankGroups, TimeCallsFromTheLastBeginToTheLastEnd) {
  rank_that_says({"hello 1", "ready", "times 10 10.5 20 20.25", "wrong 3"});
  rank_that_says({"hello 0", "ready", "times 10.125 10.25 19 20.5", "wrong 4"});
  RankGroup& ranks = group();
  ranks.prepare("all_reduce", 8);
  EXPECT_THAT(ranks.turn("way", 2),
              ElementsAre(DoubleNear(0.375e6, 1e-3), DoubleNear(0.5e6, 1e-3)));
  EXPECT_EQ(ranks.count_wrong(), 7);
}

TEST_F(RankGroups, TimeCallsFromTheFirstBeginWithoutRanksThatOnlyServe) {
  rank_that_says({"hello 1", "times 10 10.5"});
  rank_that_says({"hello 2", "times"});
  rank_that_says({"hello 0", "times 10.125 10.25"});
  EXPECT_THAT(group().turn("way", 1, RankGroup::From::first_begin),
              ElementsAre(DoubleNear(0.5e6, 1e-3)));
}

TEST_F(RankGroups, CallRanksByTheirNames) {
  rank_that_says({"hello 0", "error no memory"});
  RankGroup ranks("bench ps", std::exchange(sockets_, {}), std::make_unique<NoProcesses>(), {},
                  {"server 7"});
  EXPECT_EQ(complaint([&] { ranks.turn("way", 1); }), "bench ps: server 7: no memory");
}

TEST_F(RankGroups, SayWhichRankComplains) {
  rank_that_says({"hello 1", "ready"});
  rank_that_says({"hello 0", "error no memory"});
  RankGroup& ranks = group();
  EXPECT_EQ(complaint([&] { ranks.prepare("all_reduce", 8); }),
            "bench comm: madeup: rank 0: no memory");
}

TEST_F(RankGroups, SayWhichRankEndsWithoutWaitingForTheOthers) {
  rank_that_says({"hello 1"});
  rank_that_waits(0);
  RankGroup& ranks = group();
  EXPECT_EQ(complaint([&] { ranks.turn("way", 1); }),
            "bench comm: madeup: rank 1 ended during 'turn way 1': the end of 1");
}

TEST_F(RankGroups, SayWhichRankEndsAfterItHasAnswered) {
  rank_that_waits(0);
  rank([](int socket) {
    (void)!send(socket, "hello 1\n", 8, MSG_NOSIGNAL);
    char c = 0;
    while (::read(socket, &c, 1) == 1 && c != '\n') {
    }
    (void)!send(socket, "times\n", 6, MSG_NOSIGNAL);
    close(socket);
  });
  RankGroup& ranks = group();
  EXPECT_EQ(complaint([&] { ranks.turn("way", 1); }),
            "bench comm: madeup: rank 1 ended during 'turn way 1': the end of 1");
}

TEST_F(RankGroups, NameWhoDoesNotAnswerInTime) {
  rank([](int socket) {
    char c = 0;
    while (::read(socket, &c, 1) == 1) {
    }
    close(socket);
  });
  EXPECT_THAT(complaint([&] { group({.timeout_s = 0.01}); }),
              AllOf(HasSubstr("madeup: no answer to 'start' within 0.01 s from rank 0"),
                    HasSubstr("--timeout")));
}

TEST_F(RankGroups, EndWhenTheUserInterrupts) {
  rank_that_says({});
  EXPECT_EQ(complaint([&] { group({.interrupted = [] { return true; }}); }), "interrupted");
}

TEST_F(RankGroups, RefuseWhatNoRankSays) {
  rank_that_says({"hello 0"});
  rank_that_says({"hello 0"});
  EXPECT_THAT(complaint([&] { group(); }), HasSubstr("2 ranks, of which one says 'hello 0'"));
  rank_that_says({"hello 0", "steady"});
  EXPECT_THAT(complaint([&] { group().prepare("broadcast", 8); }),
              HasSubstr("rank 0 answers 'steady' to 'array broadcast 8'"));
  rank_that_says({"hello 0", "times 2 1"});
  EXPECT_THAT(complaint([&] { group().turn("way", 1); }), HasSubstr("'times 2 1' are not those"));
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
  rank([&](int socket) { serve(socket, 0, counting); });
  RankGroup& ranks = group();
  ranks.prepare("all_gather", 6);
  for (const double us : ranks.turn("way", 2)) EXPECT_GE(us, 0);
  EXPECT_EQ(ranks.count_wrong(), 5);
  EXPECT_EQ(counting.done_, "prepare all_gather 6,fill,meet,way,meet,fill,meet,way,meet,");
}

}  // namespace
}  // namespace ringside::tools::bench
