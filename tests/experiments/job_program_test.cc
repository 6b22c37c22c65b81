// The real program as several processes of one host, as a launcher starts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/processor.h"
#include "tests/experiments/program_test.h"
#include "tests/support/held_port.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using testing::Ended;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class JobProgram : public ProgramTest {
 protected:
  JobProgram() {
    small_gpt(16, 8, R"(steps = 3
warmup = 1
global_batch = 8
micro_batch = 4
[compare]
schemes = ["single", "ps", "ddp"]
worlds = [2]
repeats = 1
attempts = 1
all_cores = false
)");
  }

  testing::Program start_rank(int rank, int size, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"compare", "trial.toml", "--join-timeout", join_timeout_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start(arguments, [=, this] {
      setenv("RANK", std::to_string(rank).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
      setenv("MASTER_ADDR", address_.c_str(), 1);
      setenv("MASTER_PORT", std::to_string(port_.number()).c_str(), 1);
    });
  }

  testing::HeldPort port_;
  std::string join_timeout_ = "60", address_ = "127.0.0.1";
};

TEST_F(JobProgram, RanksOfAgentsEndWithTheBitsOfOneProcess) {
  auto first = start_rank(1, 3), second = start_rank(2, 3);
  const Ended leader = start_rank(0, 3).wait();
  EXPECT_EQ(leader.status, 0) << leader.err;
  EXPECT_EQ(first.wait().status, 0);
  EXPECT_EQ(second.wait().status, 0);
  EXPECT_THAT(leader.err, HasSubstr("agents 0 (leads), 1, 2"));
  std::ifstream rows(path("results/trial/rows.jsonl"));
  int count = 0;
  std::string hash;
  for (std::string line; std::getline(rows, line); ++count) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row["status"], "ok") << row["error"];
    if (hash.empty()) hash = row["parameter_hashes"][0];
    EXPECT_EQ(row["parameter_hashes"][0], hash) << row["run"];
    EXPECT_EQ(row["homes"].size(), row["scheme"] == "ps" ? 4u : row["world"].get<std::size_t>());
  }
  EXPECT_EQ(count, 3);
  const auto environment = nlohmann::json::parse(folder_.read("results/trial/environment.json"));
  ASSERT_EQ(environment["hosts"].size(), 1u);
  EXPECT_EQ(environment["hosts"][0]["address"], "127.0.0.1");
  EXPECT_TRUE(environment["hosts_differ"].empty());
}

TEST_F(JobProgram, AProcessWithOtherSettingsEndsTheJob) {
  auto other = start_rank(1, 2, {"--set", "train.lr=1"});
  const Ended leader = start_rank(0, 2).wait();
  EXPECT_EQ(leader.status, 2);
  EXPECT_THAT(leader.err, AllOf(HasSubstr("agent 1 on "), HasSubstr("experiment and settings")));
  const Ended refused = other.wait();
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("this process is refused: agent 1 on "));
}

TEST_F(JobProgram, AnIpv6AddressOfTheHostLeadsToIt) {
  address_ = "[::1]";
  auto other = start_rank(1, 2, {"--schemes", "single"});
  const Ended leader = start_rank(0, 2, {"--schemes", "single"}).wait();
  EXPECT_EQ(leader.status, 0) << leader.err;
  EXPECT_THAT(leader.err, HasSubstr("led at 127.0.0.1:"));
  EXPECT_EQ(other.wait().status, 0);
}

TEST_F(JobProgram, AnotherIpv6AddressIsRefusedByThatReason) {
  address_ = "2001:db8::7";  // reserved for documentation (RFC 3849)
  const Ended ended = start_rank(0, 2).wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.err,
            "ringside: MASTER_ADDR = 2001:db8::7 is an IPv6 address, and the processes of a job "
            "reach each other by IPv4; give a name or an IPv4 address of that host\n");
}

TEST_F(JobProgram, APodHasASlotForEachCore) {
  const auto pod = [&](int rank) {
    return start({"compare", "trial.toml", "--schemes", "single"}, [=, this] {
      setenv("PET_NODE_RANK", std::to_string(rank).c_str(), 1);
      setenv("PET_NNODES", "2:2", 1);
      setenv("PET_NPROC_PER_NODE", rank == 0 ? "cpu" : "3", 1);
      setenv("PET_MASTER_ADDR", "127.0.0.1", 1);
      setenv("PET_MASTER_PORT", std::to_string(port_.number()).c_str(), 1);
    });
  };
  auto other = pod(1);
  const Ended leader = pod(0).wait();
  EXPECT_EQ(leader.status, 0) << leader.err;
  const int cores = allowed_cores().value_or(1);
  EXPECT_THAT(leader.err, HasSubstr(cores == 1 ? "agents 0 (leads), 1 x3"
                                               : fmt::format("0 (leads) x{}, 1 x3", cores)));
  EXPECT_EQ(other.wait().status, 0);
}

// Each process would make the whole run.
TEST_F(JobProgram, CommandsThatTakeNoPartInAJobAreRefusedUnderALauncher) {
  const auto under_launcher = [&](const std::vector<std::string>& arguments) {
    return run(arguments, [] {
      setenv("OMPI_COMM_WORLD_RANK", "1", 1);
      setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    });
  };
  const std::string said =
      "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE say that a launcher has started this process "
      "as one of 2, and each would make the whole run by itself; ";
  const Ended trained = under_launcher(
      {"train", "trial.toml", "--scheme", "ddp", "--world", "2", "--set", "data.path=a file"});
  EXPECT_EQ(trained.status, 2);
  EXPECT_EQ(trained.err, "ringside: train: " + said +
                             "start `ringside compare trial.toml --schemes ddp --worlds 2 --set "
                             "'data.path=a file'` with it, which is one job of all processes, or "
                             "start train without the "
                             "launcher\n");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"bench", "comm"},
                                                    {"bench", "ps"},
                                                    {"validate", "trial.toml"},
                                                    {"reproduce"}}) {
    const Ended ended = under_launcher(arguments);
    EXPECT_EQ(ended.status, 2) << arguments[0];
    EXPECT_THAT(ended.err, HasSubstr(said + "start it without the launcher")) << arguments[0];
  }
  EXPECT_EQ(run({"train", "trial.toml", "--scheme", "single"},
                [] {
                  setenv("RANK", "0", 1);
                  setenv("WORLD_SIZE", "1", 1);
                })
                .status,
            0)
      << "a process alone";
}

TEST_F(JobProgram, WhoDoesNotComeIsNamed) {
  join_timeout_ = "2";
  auto first = start_rank(1, 3);
  const Ended leader = start_rank(0, 3).wait();
  EXPECT_EQ(leader.status, 2);
  EXPECT_THAT(leader.err, HasSubstr("agents 2 of 3 did not come to 127.0.0.1:"));
  EXPECT_EQ(first.wait().status, 1);
}

TEST_F(JobProgram, WhoComesTwiceIsNamedAtOnce) {
  auto first = start_rank(1, 3), again = start_rank(1, 3);
  const Ended leader = start_rank(0, 3).wait();
  EXPECT_EQ(leader.status, 2);
  EXPECT_THAT(leader.err,
              ::testing::ContainsRegex("agent 1 on .* \\(process [0-9]+\\) and agent 1 on "
                                       ".* \\(process [0-9]+\\) have the same number"));
  for (auto* one : {&first, &again}) {
    const Ended ended = one->wait();
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, HasSubstr("this process is refused: agent 1 on "));
  }
}

TEST_F(JobProgram, OneTooManyIsNamedAtOnce) {
  auto third = start_rank(2, 3);
  const Ended leader = start_rank(0, 2).wait();
  EXPECT_EQ(leader.status, 2);
  EXPECT_THAT(leader.err, HasSubstr("has a job of processes: 3, but agent 0"));
  EXPECT_EQ(third.wait().status, 1);
  const Ended beyond = start_rank(2, 2).wait();
  EXPECT_EQ(beyond.status, 2);
  EXPECT_THAT(beyond.err, HasSubstr("RANK"));
}

/// Nobody listens any more, so the job does not even notice.
TEST_F(JobProgram, WhoComesTooLateIsToldAndDisturbsNobody) {
  auto leader = start_rank(0, 2), first = start_rank(1, 2);
  ASSERT_TRUE(leader.wait_for_error("Job of 2 processes")) << "the job has begun";
  join_timeout_ = "1";
  const Ended late = start_rank(1, 2).wait();
  EXPECT_EQ(late.status, 1);
  EXPECT_THAT(late.err, HasSubstr("within 1 s"));
  const Ended ended = leader.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(first.wait().status, 0);
}

TEST_F(JobProgram, ALeaderThatOnlyItsHostReachesSaysSo) {
  const std::vector<std::string> keys = {"--keys", path("keys")};
  ASSERT_EQ(run({"keys", path("keys"), "--workers", "2"}).status, 0);
  join_timeout_ = "4";
  address_ = "127.0.1.1";  // as the leader's own name on Debian
  auto leader = start_rank(0, 2, keys);
  address_ = "127.0.0.1";
  const Ended agent = start_rank(1, 2, keys).wait();
  const std::string remedy =
      "no other host reaches 127.0.1.1: if they are on other hosts, set MASTER_ADDR to an address "
      "of this host for all processes\n";
  const std::string where = "127.0.1.1:" + std::to_string(port_.number());
  const Ended ended = leader.wait();
  EXPECT_THAT(ended.err, AllOf(HasSubstr("ringside: agents 1 of 2 have not come to " + where +
                                         " yet; " + remedy),
                               HasSubstr("did not come to " + where + " within 4 s"),
                               EndsWith("agents 0 (leads); " + remedy)));
  EXPECT_THAT(agent.err,
              AllOf(HasSubstr("nobody at 127.0.0.1:"), HasSubstr("within 4 s"),
                    HasSubstr("; MASTER_ADDR names this address; check that "
                              "the leader has started, or set MASTER_ADDR to an address of its "
                              "host, and MASTER_PORT, for all processes")));
}

TEST_F(JobProgram, APortThatIsTakenIsNamed) {
  ASSERT_EQ(run({"keys", path("keys"), "--workers", "2"}).status, 0);
  const int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ASSERT_EQ(bind(other, reinterpret_cast<const sockaddr*>(&port_.address()), sizeof(sockaddr_in)),
            0);
  ASSERT_EQ(listen(other, 1), 0);
  for (const auto& keys : {std::vector<std::string>(), {"--keys", path("keys")}})
    EXPECT_EQ(start_rank(0, 2, keys).wait().err,
              "ringside: the leader of the job (agent 0): cannot listen on port " +
                  std::to_string(port_.number()) +
                  " of 127.0.0.1 (Address already in use); set MASTER_PORT to another port for all "
                  "processes\n");
  close(other);
}

}  // namespace
}  // namespace ringside
