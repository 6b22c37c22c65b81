// The step rate of `ps` on tcp while strangers are connected to its server: a thousand silent
// connections, some that send a byte now and then, and some that send frames without end; or two
// thousand that are only idle. Needs two quiet cores.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

constexpr int talkative = 50, pairs = 9;

struct Besiegers {
  int crowd = 1000;
  bool idle = false;  // they do nothing but stay
  /// How many have to be connected at once before the last worker comes.
  int enough() const { return crowd * 3 / 4; }
};

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int free_port() {
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  bind(number, reinterpret_cast<const sockaddr*>(&address), size);
  getsockname(number, reinterpret_cast<sockaddr*>(&address), &size);
  close(number);
  return ntohs(address.sin_port);
}

/// Begins to connect; the connection may never come about.
int knock(int port) {
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  connect(number, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return number;
}

/// Whether the connection was made and is still open.
bool stands(int number) {
  pollfd item{number, POLLIN | POLLOUT, 0};
  char byte;
  return poll(&item, 1, 0) == 1 && (item.revents & (POLLERR | POLLHUP)) == 0 &&
         (item.revents & POLLOUT) != 0 && recv(number, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

/// The actions of strangers, in a process of their own, until they are killed. `most` becomes the
/// largest number of their connections that stood at once.
[[noreturn]] void besiege_port(int port, Besiegers besiegers, std::atomic<int>& most) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  for (bool there = false; !there;) {  // wait for the server
    pollfd item{knock(port), POLLOUT, 0};
    there = poll(&item, 1, 1) == 1 && (item.revents & (POLLERR | POLLHUP)) == 0;
    close(item.fd);
  }
  std::vector<int> idle;
  for (int i = 0; i < besiegers.crowd; ++i) idle.push_back(knock(port));
  const std::vector<char> frames(1 << 20, '\x03');  // the flags "more" and "long", again and again
  for (std::size_t turn = 0;; ++turn) {
    if (turn % 8 == 0)
      most =
          std::max(most.load(), static_cast<int>(std::count_if(idle.begin(), idle.end(), stands)));
    if (besiegers.idle) {
      poll(nullptr, 0, 20);
      continue;
    }
    for (std::size_t i = 0; i < talkative; ++i) send(idle[i], "\xFF", 1, MSG_NOSIGNAL);
    int& next = idle[turn % idle.size()];
    send(next, frames.data(), frames.size(), MSG_NOSIGNAL);
    close(next);
    next = knock(port);
    poll(nullptr, 0, 20);
  }
}

void* shared_memory(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory to share with the strangers");
  return memory;
}

class Siege {
 public:
  Siege(int port, Besiegers besiegers)
      : besiegers_(besiegers),
        most_(new (shared_memory(sizeof(std::atomic<int>))) std::atomic<int>(0)),
        process_(fork()) {
    if (process_ == 0) besiege_port(port, besiegers, *most_);
  }
  ~Siege() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    munmap(most_, sizeof *most_);
  }
  /// Blocks until enough strangers are connected, at most for a while; returns how many were.
  int wait_until_enough() const {
    for (int i = 0; i < 4000 && *most_ < besiegers_.enough(); ++i) poll(nullptr, 0, 1);
    return *most_;
  }
  Siege(const Siege&) = delete;
  Siege& operator=(const Siege&) = delete;

 private:
  Besiegers besiegers_;
  std::atomic<int>* most_;  // shared with the process
  pid_t process_;
};

class StrangersRate : public ProgramTest {
 protected:
  StrangersRate() {
    small_gpt(64, 64, "steps = 200\nwarmup = 20\nglobal_batch = 8\nmicro_batch = 4\n");
  }
  void nine_tenths_are_left(Besiegers besiegers);
  /// `before` is called while worker 1, the only worker of another process than
  /// the server's, stands still.
  double median_step_ms(
      int port, const std::function<void()>& before = [] {}) {
    testing::Program program =
        start({"train", "trial.toml", "--scheme", "ps", "--world", "2", "--output", "out.json",
               "--set", "scheme.ps.transport=tcp", "--set", "scheme.ps.servers=1", "--set",
               "scheme.ps.placement=colocated", "--set", "scheme.ps.port=" + std::to_string(port)});
    // Servers let nobody in once all workers have come. So that strangers are there before, worker
    // 1 is held at its start; in quiet runs too.
    std::vector<pid_t> ranks;
    for (int i = 0; i < 30'000 && ranks.size() < 2; ++i) {
      ranks = program.children();
      poll(nullptr, 0, 1);
    }
    if (ranks.size() < 2) {
      kill(program.pid(), SIGTERM);
      throw std::runtime_error("the program has not started its ranks: " + program.wait().err);
    }
    kill(ranks[1], SIGSTOP);
    before();
    kill(ranks[1], SIGCONT);
    const testing::Ended ended = program.wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    const auto out = nlohmann::json::parse(folder_.read("out.json"));
    std::filesystem::remove(path("out.json"));
    const auto& row = out.contains("row") ? out.at("row") : out;
    return row.at("step_ms").at("median").get<double>();
  }
};

/// Runs without and with strangers by turns, and every other pair the other way round, so that what
/// else goes on in the machine burdens both. The strangers' own work burdens the besieged runs
/// alone.
void StrangersRate::nine_tenths_are_left(Besiegers besiegers) {
  const auto besieged_run = [&](int& connections) {
    const int port = free_port();
    const Siege siege(port, besiegers);
    return median_step_ms(port, [&] { connections = siege.wait_until_enough(); });
  };
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    double quiet = 0;
    int connections = 0;
    if (i % 2 == 0) quiet = median_step_ms(free_port());
    const double besieged = besieged_run(connections);
    if (i % 2 == 1) quiet = median_step_ms(free_port());
    ratios.push_back(quiet / besieged);
    std::printf(
        "pair %d: step %.3f ms, besieged %.3f ms, rate %.3f; %d strangers connected at once\n",
        i + 1, quiet, besieged, ratios.back(), connections);
    std::fflush(stdout);
    EXPECT_GE(connections, besiegers.enough()) << "the siege did not come about";
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("rates: median %.3f, smallest %.3f, largest %.3f\n", ratios[pairs / 2],
              ratios.front(), ratios.back());
  EXPECT_GE(ratios[pairs / 2], 0.9);
}

TEST_F(StrangersRate, NineTenthsAreLeft) { nine_tenths_are_left({}); }

TEST_F(StrangersRate, NineTenthsAreLeftBesideTwoThousandIdleConnections) {
  nine_tenths_are_left({.crowd = 2000, .idle = true});
}

}  // namespace
}  // namespace ringside
