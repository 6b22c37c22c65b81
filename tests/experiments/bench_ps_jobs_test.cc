// Workers and servers of `ringside bench ps` that are started one by one.
#include <poll.h>
#include <sys/socket.h>

#include "ps/schemes/ps.h"
#include "tests/experiments/ps_jobs.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST_F(PsJobs, MeasureWorkersAndServersThatJoin) {
  testing::Program worker_1 = start_as("worker", {}, "1");  // before the scheduler
  testing::Program scheduler =
      start_as("scheduler", {"--sizes", "8,2MB", "--rounds", "2", "--json", "figures.json"});
  ASSERT_TRUE(scheduler.wait_for_error("waits for 2 workers and 1 server at 127.0.0.1:"));
  testing::Program server = start_as("server"), worker_0 = start_as("worker");
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("# Out of bounds values : 0 OK"));
  for (testing::Program* rank : {&worker_0, &worker_1, &server}) {
    const testing::Ended rank_ended = rank->wait();
    EXPECT_EQ(rank_ended.status, 0) << rank_ended.err;
    EXPECT_EQ(rank_ended.out + rank_ended.err, "");
  }
  std::ifstream in(path("figures.json"));
  const auto rows = nlohmann::json::parse(in).at("results");
  // All transports but auto, which is one of the others.
  ASSERT_EQ(rows.size(), 2 * (names_of(decltype(ps::PsOptions::transport){}).size() - 1));
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("workers"), 2);
    EXPECT_EQ(row.at("in_place").at("nwrong"), 0);
  }
}

TEST_F(PsJobs, GiveAPlaceToAnotherProcessIfOneEndsBeforeAllHaveCome) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "8", "--rounds", "1"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  const std::string join =
      R"({"join": {"role": "worker", "worker": 1, "workers": 2, "servers": 1}})"
      "\n";
  const int first = connect_to_scheduler(), second = connect_to_scheduler();
  ASSERT_EQ(send(first, join.data(), join.size(), MSG_NOSIGNAL), std::ssize(join));
  ASSERT_EQ(send(second, join.data(), join.size(), MSG_NOSIGNAL), std::ssize(join));
  pollfd answered[2] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
  ASSERT_EQ(poll(answered, 2, 60'000), 1) << "one of them is refused";
  close(first);
  close(second);
  testing::Program worker_1 = start_as("worker", {}, "1"), worker_0 = start_as("worker", {}, "0");
  testing::Program server = start_as("server");
  EXPECT_EQ(scheduler.wait().status, 0);
  EXPECT_EQ(worker_1.wait().status, 0);
}

TEST_F(PsJobs, EndWithTheNameOfTheProcessThatIsKilled) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "4KB", "--rounds", "1000000"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  testing::Program worker_0 = start_as("worker", {}, "0"), worker_1 = start_as("worker", {}, "1");
  testing::Program server = start_as("server");
  ASSERT_TRUE(wait_for_rounds(worker_0.pid()));
  kill(server.pid(), SIGKILL);
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("bench ps: server 0 ended during '"));
  for (testing::Program* rank : {&worker_0, &worker_1}) {
    const testing::Ended rank_ended = rank->wait();
    EXPECT_EQ(rank_ended.status, 1);
    // A worker may hear of the end from the server first.
    EXPECT_THAT(rank_ended.err, AnyOf(HasSubstr("the scheduler has ended; it says why"),
                                      HasSubstr("failed; the scheduler says why")));
  }
}

TEST_F(PsJobs, NameWhoDoesNotCome) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "4KB", "--timeout", "0.1"});
  EXPECT_TRUE(scheduler.wait_for_error(
      "bench ps: worker 0, worker 1, server 0 did not come to 127.0.0.1:"));
}

TEST_F(PsJobs, RefuseWhoDoesNotFit) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "4KB"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  const int server = connect_to_scheduler();
  say(server, R"({"join": {"role": "server", "worker": -1, "workers": 2, "servers": 1}})"
              "\n");
  set("DMLC_NUM_WORKER", "3");
  EXPECT_THAT(complaint_as("worker"),
              HasSubstr("refuses this worker: the job has 2 workers and 1 servers"));
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 1);
  const auto cause = HasSubstr(
      "a process that does not fit ends the job: the job has 2 workers and 1 servers "
      "(DMLC_NUM_WORKER, DMLC_NUM_SERVER), but the process was told of 3 and 1");
  EXPECT_THAT(ended.err, cause);
  EXPECT_THAT(nlohmann::json::parse(hear_line(server)).at("ended").get<std::string>(), cause);
  close(server);
}

TEST_F(PsJobs, TellThoseWhoHaveComeWhoHasNot) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "4KB", "--timeout", "2"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  EXPECT_THAT(complaint_as("server"),
              HasSubstr("the scheduler has ended the job: bench ps: worker 0, worker 1 did not "
                        "come to 127.0.0.1:"));
}

TEST_F(PsJobs, LeaveASchedulerThatStandsStill) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "4KB"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  kill(scheduler.pid(), SIGSTOP);
  EXPECT_THAT(complaint_as("worker", {"--timeout", "0.1"}),
              HasSubstr("has said nothing within 0.1 s (--timeout): it stands still"));
}

TEST_F(PsJobs, AreRefusedWithAnEnvironmentThatMakesNoSense) {
  EXPECT_THAT(complaint_as("worker", {"--timeout", "0.01"}),
              HasSubstr("no scheduler at 127.0.0.1:"));
  EXPECT_THAT(complaint_as("scheduler", {"--workers", "2"}), HasSubstr("DMLC_NUM_WORKER"));
  EXPECT_THAT(complaint_as("scheduler", {"--placement", "colocated"}), HasSubstr("of their own"));
  EXPECT_THAT(complaint_as("joker"), HasSubstr("choose worker, server or scheduler"));
  set("DMLC_NUM_SERVER", "one");
  EXPECT_THAT(complaint_as("worker"), HasSubstr("DMLC_NUM_SERVER = 'one' is no number"));
  set("DMLC_NUM_SERVER", "0");
  EXPECT_THAT(complaint_as("worker"), HasSubstr("DMLC_NUM_SERVER = 0 must lie between"));
  for (const std::string address : {"192.168.0.1", "0.0.0.0", "example.org"}) {
    set("DMLC_PS_ROOT_URI", address);
    EXPECT_THAT(complaint_as("scheduler"), AllOf(HasSubstr(address), HasSubstr("keys")));
  }
  environment_.erase("DMLC_PS_ROOT_URI");
  EXPECT_THAT(complaint_as("worker"), HasSubstr("DMLC_PS_ROOT_URI is not"));
}

}  // namespace
}  // namespace ringside
