// Jobs of `ringside bench ps` with keys, and what a scheduler does with strangers.
#include <poll.h>
#include <sys/wait.h>

#include <filesystem>

#include "tests/experiments/ps_jobs.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PsJobsWithKeys : public PsJobs {
 protected:
  PsJobsWithKeys() { make_keys("keys"); }

  void make_keys(const std::string& folder) {
    EXPECT_EQ(run({"keys", folder, "--workers", "2"}).status, 0);
  }
  static std::vector<std::string> with_keys(std::vector<std::string> arguments,
                                            const std::string& folder = "keys") {
    arguments.insert(arguments.end(), {"--keys", folder});
    return arguments;
  }
  /// Gives a folder the pair of another folder.
  void copy_pair(const std::string& from, const std::string& to) {
    for (const char* part : {".public", ".secret"})
      std::filesystem::copy_file(path(from + part), path(to + part),
                                 std::filesystem::copy_options::overwrite_existing);
  }
};

TEST_F(PsJobsWithKeys, MeasureOnOtherAddresses) {
  set("DMLC_PS_ROOT_URI", "127.0.0.2");
  testing::Program scheduler = start_as(
      "scheduler", with_keys({"--sizes", "8,2MB", "--rounds", "2", "--json", "figures.json"}));
  ASSERT_TRUE(scheduler.wait_for_error("waits for 2 workers and 1 server at 127.0.0.2:"));
  set("DMLC_NODE_HOST", "127.0.0.3");
  testing::Program server = start_as("server", with_keys({}));
  testing::Program worker_0 = start_as("worker", with_keys({}), "0");
  testing::Program worker_1 = start_as("worker", with_keys({}), "1");
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("# Out of bounds values : 0 OK"));
  for (testing::Program* rank : {&worker_0, &worker_1, &server}) {
    const testing::Ended rank_ended = rank->wait();
    EXPECT_EQ(rank_ended.status, 0) << rank_ended.err;
  }
  std::ifstream in(path("figures.json"));
  const auto rows = nlohmann::json::parse(in).at("results");
  ASSERT_EQ(rows.size(), 2U);
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("transport"), "tcp");
    EXPECT_EQ(row.at("encrypted"), true);
    EXPECT_EQ(row.at("in_place").at("nwrong"), 0);
  }
}

TEST_F(PsJobsWithKeys, RefuseWhoHasNoKeyAWrongOneOrAnothers) {
  testing::Program scheduler = start_as("scheduler", with_keys({"--sizes", "8", "--rounds", "1"}));
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  EXPECT_THAT(complaint_as("worker"), HasSubstr("either all are started with --keys or none"));

  make_keys("of another job");
  set("DMLC_WORKER_ID", "0");
  EXPECT_THAT(complaint_as("worker", with_keys({}, "of another job")),
              HasSubstr("without a proof that it has the secret to of another job/server.public"));
  copy_pair("keys/server", "of another job/server");
  EXPECT_THAT(complaint_as("worker", with_keys({}, "of another job")),
              HasSubstr("does not know the key of another job/worker-0.public"));

  testing::Program server = start_as("server", with_keys({}));
  testing::Program worker_1 = start_as("worker", with_keys({}), "1");
  testing::Program worker_0 = start_as("worker", with_keys({}), "0");
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(worker_0.wait().status, 0);
}

TEST_F(PsJobsWithKeys, EndWithAWorkerThatHasTheKeyOfAnother) {
  testing::Program scheduler = start_as("scheduler", with_keys({"--sizes", "8", "--rounds", "1"}));
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  std::filesystem::copy(path("keys"), path("mixed"));
  copy_pair("keys/worker-1", "mixed/worker-0");
  set("DMLC_WORKER_ID", "0");
  // The scheduler ends with the reason below. Its process may be gone before the worker has read
  // it.
  EXPECT_THAT(
      complaint_as("worker", with_keys({}, "mixed")),
      AnyOf(HasSubstr("worker 1 says that it is worker 0"),
            HasSubstr("has closed the connection before all processes of the job had come")));
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("a process that does not fit ends the job: worker 1 says that "
                                   "it is worker 0"));
}

TEST_F(PsJobsWithKeys, TellWhoHasKeysThatTheSchedulerHasNone) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "8"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  EXPECT_THAT(complaint_as("server", with_keys({})), HasSubstr("were both sides given keys"));
}

TEST_F(PsJobsWithKeys, EndWithTheNameOfTheProcessThatIsKilled) {
  testing::Program scheduler =
      start_as("scheduler", with_keys({"--sizes", "4KB", "--rounds", "1000000"}));
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  testing::Program worker_0 = start_as("worker", with_keys({}), "0");
  testing::Program worker_1 = start_as("worker", with_keys({}), "1");
  testing::Program server = start_as("server", with_keys({}));
  ASSERT_TRUE(wait_for_rounds(worker_0.pid()));
  kill(worker_1.pid(), SIGKILL);
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("worker 1 "), HasSubstr(" ended ")));
  // Worker 0 may hear of the end from the server first.
  EXPECT_THAT(worker_0.wait().err, AnyOf(HasSubstr("the scheduler has ended; it says why"),
                                         HasSubstr("worker 0 failed; the scheduler says why")));
}

TEST_F(PsJobsWithKeys, AreRefusedWithOptionsThatMakeNoSense) {
  EXPECT_THAT(complaint_as("worker", with_keys({})), HasSubstr("DMLC_WORKER_ID is not set"));
  EXPECT_THAT(complaint_as("scheduler", with_keys({"--transports", "shm"})),
              HasSubstr("only tcp has keys"));
  EXPECT_THAT(complaint_as("server", {"--address", "127.0.0.1"}), HasSubstr("with --keys"));
  EXPECT_THAT(complaint_as("scheduler", {"--keys", "nowhere"}),
              HasSubstr("cannot read the key nowhere/"));
  EXPECT_THAT(complaint_as("scheduler", {"--partition", "10"}), HasSubstr("--partition 10"));
}

TEST_F(PsJobsWithKeys, ServeABenchOfOneHostToo) {
  const auto rows = results_of({"--keys", "keys", "--sizes", "1MB", "--rounds", "1", "--workers",
                                "2", "--partition", "256KB"});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("encrypted"), true);
}

// ---- without keys

TEST_F(PsJobs, GoOnAfterLinesThatMakeNoSense) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "8", "--rounds", "1"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\n\r\n"), "");
  EXPECT_EQ(answer_to("{broken\n"), "");
  EXPECT_EQ(answer_to("{" + std::string(200'000, ' ')), "");
  EXPECT_EQ(answer_to("{\"join\": 1}\n{\"join\": 2}\n"), "");
  EXPECT_THAT(answer_to("{\"join\": 3}\n"), HasSubstr("its line does not say who it is"));
  EXPECT_THAT(
      answer_to(R"({"join": {"role": "scheduler", "worker": 0, "workers": 2, "servers": 1}})"
                "\n"),
      HasSubstr("nobody else"));
  testing::Program server = start_as("server"), worker_0 = start_as("worker");
  testing::Program worker_1 = start_as("worker");
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("its line is no JSON"), HasSubstr("of no process of a job"),
                    HasSubstr("more than who it is")));
}

TEST_F(PsJobs, BeginBesideManyConnectionsThatSayNothing) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "8", "--rounds", "1"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  std::vector<int> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(connect_to_scheduler());
  testing::Program server = start_as("server"), worker_0 = start_as("worker");
  testing::Program worker_1 = start_as("worker");
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, AnyOf(HasSubstr("the oldest is dropped"),
                               HasSubstr("it has not said within 5 s who it is")));
  for (const int socket : idle) close(socket);
}

TEST_F(PsJobs, CutOffWhoSendsNonsense) {
  set("DMLC_NUM_WORKER", "1");
  testing::Program scheduler = start_as("scheduler", {"--sizes", "8", "--rounds", "1"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  const int worker = connect_to_scheduler();
  say(worker, R"({"join": {"role": "worker", "worker": 0, "workers": 1, "servers": 1}})"
              "\n");
  testing::Program server = start_as("server");
  const auto place = nlohmann::json::parse(hear_line(worker));
  EXPECT_EQ(place.at("rank"), 0);
  say(worker, "{\"hello\": 0}\n");
  EXPECT_THAT(hear_line(worker), HasSubstr("array"));
  say(worker, "{\"set\": 5}\n");
  EXPECT_TRUE(scheduler.wait_for_error("worker 0 is cut off"));
  close(worker);
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("worker 0 ended"));
}

TEST_F(PsJobs, RefuseAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  testing::Program scheduler = start_as("scheduler", {"--sizes", "8"});
  ASSERT_TRUE(scheduler.wait_for_error("127.0.0.1:"));
  constexpr uid_t nobody = 65534;
  const pid_t other = fork();
  if (other == 0) {
    if (setuid(nobody) != 0) _exit(2);
    const int made = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(made, reinterpret_cast<const sockaddr*>(&port_.address()),
                sizeof port_.address()) != 0)
      _exit(3);
    char c = 0;
    _exit(recv(made, &c, 1, 0) <= 0 ? 0 : 4);
  }
  int status = -1;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(scheduler.wait_for_error("a connection of user 65534"));
}

}  // namespace
}  // namespace ringside
