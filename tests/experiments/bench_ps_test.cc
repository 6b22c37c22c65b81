// `ringside bench ps`: by the program, and with servers that err.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "experiments/benchmark/ps_rank.h"
#include "experiments/benchmark/ps_values.h"
#include "experiments/benchmark/rank_group.h"
#include "ps/wires/zmq/transport.h"
#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class BenchPs : public ProgramTest {
 protected:
  static std::vector<std::string> bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "ps"});
    return arguments;
  }
  nlohmann::json results_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--json", "figures.json"});
    const testing::Ended ended = run(bench(arguments));
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("# Out of bounds values : 0 OK"));
    std::ifstream in(path("figures.json"));
    return nlohmann::json::parse(in).at("results");
  }
  /// Blocks until the program has started so many processes.
  static std::vector<pid_t> wait_for_children(const testing::Program& program, std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      std::vector<pid_t> children = program.children();
      if (children.size() >= count) return children;
      if (std::chrono::steady_clock::now() > deadline) return {};
      std::this_thread::yield();
    }
  }
  /// Blocks until the process has slept so often that it must be in the rounds of the bench.
  static void wait_for_rounds(pid_t process) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (long sleeps = 0; sleeps < 100 && std::chrono::steady_clock::now() < deadline;) {
      std::ifstream status("/proc/" + std::to_string(process) + "/status");
      for (std::string word; status >> word;)
        if (word == "voluntary_ctxt_switches:") status >> sleeps;
      std::this_thread::yield();
    }
  }
  static void expect_gone(const std::vector<pid_t>& processes) {
    for (const pid_t process : processes) {
      EXPECT_EQ(kill(process, 0), -1);
      EXPECT_EQ(errno, ESRCH);
    }
  }
};

TEST_F(BenchPs, ChecksEveryTransportWithSeveralWorkersAndServers) {
  const auto results =
      results_of({"--workers", "1,2,3", "--servers", "1,2", "--sizes", "8,3MB", "--rounds", "2"});
  const EnumNames transports = names_of(decltype(ps::PsOptions::transport){});
  ASSERT_EQ(results.size(), 3 * 2 * 2 * transports.size());
  std::size_t i = 0;
  for (const int workers : {1, 2, 3})
    for (const int servers : {1, 2})
      for (const std::int64_t size : {8, 3 << 20})
        for (const std::string_view transport : transports) {
          const auto& row = results[i++];
          EXPECT_EQ(row.at("operation"), "push_pull");
          EXPECT_EQ(row.at("workers"), workers);
          EXPECT_EQ(row.at("servers"), servers);
          EXPECT_EQ(row.at("size"), size);
          EXPECT_EQ(row.at("count"), size / 4);
          EXPECT_EQ(row.at("transport"), transport);
          EXPECT_EQ(row.at("consistency"), "bsp");
          const auto& times = row.at("in_place");
          EXPECT_EQ(times.at("nwrong"), 0) << row.dump();
          const double us = times.at("time_us");
          EXPECT_GT(us, 0);
          EXPECT_LE(times.at("min"), us);
          EXPECT_LE(us, times.at("p95"));
          EXPECT_LE(times.at("p95"), times.at("max"));
          const double algbw = static_cast<double>(size) / us * 1e-3;
          EXPECT_NEAR(times.at("alg_bw"), algbw, 1e-9 * algbw);
          EXPECT_NEAR(times.at("bus_bw"), 2 * algbw, 1e-9 * algbw);
          for (const char* bound : {"copy", "copy_by_two", "tcp", "unix"})
            EXPECT_GT(row.at("bounds_us").at(bound), 0) << bound;
        }
}

TEST_F(BenchPs, MeasuresServersBesideWorkers) {
  const auto results =
      results_of({"--workers", "2,3", "--servers", "2", "--sizes", "64KB", "--rounds", "2",
                  "--placement", "beside", "--threads", "2", "--transports", "tcp"});
  ASSERT_EQ(results.size(), 2u);
  for (const auto& row : results) {
    EXPECT_EQ(row.at("placement"), "beside");
    EXPECT_EQ(row.at("in_place").at("nwrong"), 0);
  }
}

TEST_F(BenchPs, RefusesWhatItCannotMeasureInOneLine) {
  const auto complaint = [&](const std::vector<std::string>& arguments) {
    const testing::Ended ended = run(bench(arguments));
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, EndsWith("\n"));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(complaint({"--sizes", "3"}), HasSubstr("--sizes 3: an array for 1 server has"));
  EXPECT_THAT(complaint({"--sizes", "7", "--servers", "2"}), HasSubstr("at least 8 bytes"));
  EXPECT_THAT(complaint({"--transports", "tcpp"}), HasSubstr("did you mean 'tcp'?"));
  EXPECT_THAT(complaint({"--transports", "tcp,tcp"}), HasSubstr("tcp is named twice"));
  EXPECT_THAT(complaint({"--consistencies", "bps"}), HasSubstr("did you mean 'bsp'?"));
  EXPECT_THAT(complaint({"--placement", "besides"}), HasSubstr("did you mean 'beside'?"));
  EXPECT_THAT(complaint({"--workers", "0"}), HasSubstr("--workers 0: there are 1 to 64"));
  EXPECT_THAT(complaint({"--servers", "4294967297"}), HasSubstr("there are 1 to 64"));
  EXPECT_THAT(complaint({"--workers", "60", "--servers", "5"}), HasSubstr("more than 64"));
  EXPECT_THAT(complaint({"--servers", "2", "--placement", "beside"}),
              HasSubstr("--servers 2: with --placement beside"));
  EXPECT_THAT(complaint({"--json", "no/such/folder.json"}), HasSubstr("no/such/folder.json"));
}

TEST_F(BenchPs, NamesTheRankThatIsKilledAndLeavesNothing) {
  const std::vector<std::string> names = {"worker 0", "server 0"};
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    testing::Program program = start(bench({"--sizes", "4KB", "--rounds", "1000000"}));
    const std::vector<pid_t> children = wait_for_children(program, 4);  // two measure bounds
    ASSERT_EQ(children.size(), 4u);
    wait_for_rounds(children[rank]);
    kill(children[rank], SIGKILL);
    const testing::Ended ended = program.wait();
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("bench ps: " + names[rank] + " ended during 'turn "),
                                 HasSubstr("signal 9")));
    expect_gone(children);
  }
}

TEST_F(BenchPs, LeavesNothingWhenItIsInterrupted) {
  testing::Program program = start(bench({"--sizes", "4KB", "--rounds", "1000000"}));
  const std::vector<pid_t> children = wait_for_children(program, 4);
  kill(program.pid(), SIGTERM);
  const testing::Ended ended = program.wait();
  EXPECT_EQ(ended.status, 130);
  EXPECT_EQ(ended.err, "ringside: bench ps: interrupted\n");
  expect_gone(children);
}

/// A job whose processes are started one by one. Each gets the environment of ps-lite.
class PsJobs : public BenchPs {
 protected:
  PsJobs() {
    // Keeps a port for the scheduler: nobody else gets it, and two may bind it if one listens.
    held_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    setsockopt(held_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    socklen_t length = sizeof address;
    auto* at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(held_, at, length), 0);
    EXPECT_EQ(getsockname(held_, at, &length), 0);
    set("DMLC_PS_ROOT_URI", "127.0.0.1");
    set("DMLC_PS_ROOT_PORT", std::to_string(ntohs(address.sin_port)));
    set("DMLC_NUM_WORKER", "2");
    set("DMLC_NUM_SERVER", "1");
  }
  ~PsJobs() override { close(held_); }

  void set(const std::string& name, const std::string& value) { environment_[name] = value; }
  testing::Program start_as(const std::string& role, std::vector<std::string> arguments = {},
                            const std::string& worker = "") {
    set("DMLC_ROLE", role);
    auto environment = environment_;
    if (!worker.empty()) environment["DMLC_WORKER_ID"] = worker;
    return start(bench(std::move(arguments)), [environment] {
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    });
  }
  /// The one line with which a process ends that cannot take part.
  std::string complaint_as(const std::string& role, std::vector<std::string> arguments = {}) {
    const testing::Ended ended = start_as(role, std::move(arguments)).wait();
    EXPECT_NE(ended.status, 0);
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    return ended.err;
  }

  int held_;
  std::map<std::string, std::string> environment_;
};

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
  ASSERT_EQ(rows.size(), 2 * names_of(decltype(ps::PsOptions::transport){}).size());
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("workers"), 2);
    EXPECT_EQ(row.at("in_place").at("nwrong"), 0);
  }
}

TEST_F(PsJobs, EndWithTheNameOfTheProcessThatIsKilled) {
  testing::Program scheduler = start_as("scheduler", {"--sizes", "4KB", "--rounds", "1000000"});
  testing::Program worker_0 = start_as("worker", {}, "0"), worker_1 = start_as("worker", {}, "1");
  testing::Program server = start_as("server");
  wait_for_rounds(worker_0.pid());
  kill(server.pid(), SIGKILL);
  const testing::Ended ended = scheduler.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("bench ps: server 0 ended during 'turn "));
  for (testing::Program* rank : {&worker_0, &worker_1}) {
    const testing::Ended rank_ended = rank->wait();
    EXPECT_EQ(rank_ended.status, 1);
    EXPECT_THAT(rank_ended.err, HasSubstr("the scheduler has ended"));
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
  testing::Program worker = start_as("worker", {}, "1");
  set("DMLC_NUM_WORKER", "3");
  EXPECT_THAT(complaint_as("server"),
              HasSubstr("refuses this server: the job has 2 workers and 1 servers"));
  kill(scheduler.pid(), SIGTERM);
  EXPECT_EQ(scheduler.wait().status, 130);
  kill(worker.pid(), SIGTERM);
}

TEST_F(PsJobs, AreRefusedWithAnEnvironmentThatMakesNoSense) {
  EXPECT_THAT(complaint_as("worker", {"--timeout", "0.01"}),
              HasSubstr("no scheduler at 127.0.0.1:"));
  EXPECT_THAT(complaint_as("scheduler", {"--workers", "2"}), HasSubstr("DMLC_NUM_WORKER"));
  EXPECT_THAT(complaint_as("scheduler", {"--placement", "beside"}), HasSubstr("of their own"));
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

/// Changes a message that a server sends. `before` is what the server sent to this worker about the
/// same range before, if it has.
using Change = std::function<void(std::span<float> values, std::span<const float> before)>;

/// A channel of a server whose `number`th reply to worker 0 is changed.
class ErringChannel : public ps::Channel {
 public:
  ErringChannel(std::unique_ptr<ps::Channel> channel, Device& device, Change change, int number)
      : channel_(std::move(channel)), device_(device), change_(std::move(change)), left_(number) {}

  void send(int worker, ps::Message message) override {
    if (worker == 0 && !message.frames.empty()) {
      const Tensor sent = message.frames[0];
      Tensor changed = device_.tensor(sent.shape(), MemoryKind::communication);
      const auto count = static_cast<std::size_t>(sent.count());
      std::copy_n(sent.data<float>(), count, changed.data<float>());
      std::vector<float>& before = before_[message.header.begin];
      const std::vector<float> now(sent.data<float>(), sent.data<float>() + count);
      if (--left_ == 0) change_({changed.data<float>(), count}, before);
      before = now;
      message.frames[0] = changed;
    }
    channel_->send(worker, std::move(message));
  }
  bool try_send(int worker, ps::Message message) override {
    return channel_->try_send(worker, std::move(message));
  }
  std::optional<ps::Received> receive(double timeout_s) override {
    return channel_->receive(timeout_s);
  }
  Traffic traffic() const override { return channel_->traffic(); }

 private:
  std::unique_ptr<ps::Channel> channel_;
  Device& device_;
  Change change_;
  int left_;
  std::map<std::int64_t, std::vector<float>> before_;  // by first element
};

class ErringTransport : public ps::Transport {
 public:
  ErringTransport(Change change, int number) : change_(std::move(change)), number_(number) {}
  ps::Connection listen(const RankContext& context, const ps::TransportOptions& options) override {
    ps::Connection made = transport_->listen(context, options);
    return {
        std::make_unique<ErringChannel>(std::move(made.channel), context.device, change_, number_),
        made.token};
  }
  ps::Connection connect(const RankContext& context, const ps::TransportOptions& options) override {
    return transport_->connect(context, options);
  }

 private:
  std::unique_ptr<ps::Transport> transport_ = ps::zmq_transport();
  Change change_;
  int number_;
};

/// The wrong elements that the ranks of the bench, as threads, count in six calls for `count`
/// elements, if the third reply of a server to worker 0 is changed.
std::int64_t wrong_with(const Change& change, int workers, int servers, std::int64_t count) {
  const auto shared = make_shared_ranks();
  MemoryStore store;
  std::vector<std::thread> threads;
  std::vector<int> sockets;
  PsRoles roles{.workers = workers, .servers = servers, .timeout_s = 30};
  for (roles.rank = 0; roles.rank < workers + servers; ++roles.rank) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    sockets.push_back(ends[0]);
    threads.emplace_back([&, roles, socket = ends[1]] {
      const auto make = [&]() -> std::unique_ptr<ps::Transport> {
        if (roles.server() != 0) return ps::zmq_transport();
        return std::make_unique<ErringTransport>(change, 3);
      };
      PsRank rank(roles, Links(nullptr, std::function(make)), store,
                  Meeting(*shared, workers, roles.timeout_s));
      serve(socket, roles.rank, rank);
    });
  }
  class Threads : public RankProcesses {
    std::string cause_of_end(int) override { return "it returned"; }
  };
  std::int64_t wrong = 0;
  try {
    RankGroup group("bench ps", sockets, std::make_unique<Threads>(), {.timeout_s = 40});
    group.prepare("ipc/bsp", count);
    EXPECT_EQ(group.turn("ipc/bsp", 6, RankGroup::From::first_begin).size(), 6u);
    wrong = group.count_wrong();
    EXPECT_EQ(group.count_wrong(), 0) << "each is counted once";
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

TEST(BenchPsValues, AreCountedIfAServerErrs) {
  const auto nothing = [](std::span<float>, std::span<const float>) {};
  const auto one = [](std::span<float> values, std::span<const float>) { values[7] += 1; };
  const auto late = [](std::span<float> values, std::span<const float> before) {
    std::copy(before.begin(), before.end(), values.begin());
  };
  const auto torn = [](std::span<float> values, std::span<const float> before) {
    std::copy_n(before.begin(), values.size() / 4, values.begin());
  };
  for (const int servers : {1, 2}) {
    EXPECT_EQ(wrong_with(nothing, 2, servers, 4000), 0);
    EXPECT_EQ(wrong_with(one, 2, servers, 4000), 1);
    EXPECT_EQ(wrong_with(late, 2, servers, 4000), 4000 / servers);
    EXPECT_EQ(wrong_with(torn, 2, servers, 4000), 1000 / servers);
  }
  EXPECT_EQ(wrong_with(one, 1, 1, 1 << 19), 1) << "an array of several ranges";
}

TEST(BenchPsValues, OfSomeWorkersAreRightIfTheyAreTheSameThroughoutARange) {
  constexpr std::int64_t round = 5, first = 1000;
  constexpr int workers = 3;
  std::vector<float> sum(100);
  const auto add = [&](std::size_t begin, std::size_t end, int worker, std::int64_t of) {
    std::vector<float> gradient(first + sum.size());
    fill_gradient(gradient, worker, of);
    for (std::size_t i = begin; i < end; ++i) sum[i] -= gradient[first + i];
  };
  const auto wrong = [&](bool all) { return count_wrong_values(sum, first, round, workers, all); };
  add(0, 100, 1, round);
  EXPECT_EQ(wrong(false), 0);
  EXPECT_EQ(wrong(true), 100) << "two are missing";
  add(0, 40, 2, round);
  EXPECT_EQ(wrong(false), 60) << "worker 2 is only in the first 40";
  add(40, 100, 2, round);
  EXPECT_EQ(wrong(false), 0);
  add(0, 100, 0, round - 1);
  EXPECT_EQ(wrong(false), 100) << "a gradient of the round before";
  std::fill(sum.begin(), sum.end(), 0.0F);
  EXPECT_EQ(wrong(false), 100) << "no gradient at all";
  for (int worker = 0; worker < workers; ++worker) add(0, 100, worker, round);
  EXPECT_EQ(wrong(false), 0);
  EXPECT_EQ(wrong(true), 0);
  add(50, 51, 0, round);
  EXPECT_EQ(wrong(true), 1) << "a push that was applied twice";
}

}  // namespace
}  // namespace ringside
