// What is left of the step rate of `ps` on tcp while strangers besiege its server: a thousand
// connections that say nothing, some that say a byte now and then, and some that send frames
// without end. Needs two quiet cores.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

constexpr int crowd = 1000, talkative = 50, pairs = 5;

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

/// What strangers do, in a process of their own, until they are killed.
[[noreturn]] void besiege_port(int port) {
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
  for (int i = 0; i < crowd; ++i) idle.push_back(knock(port));
  const std::vector<char> frames(1 << 20, '\x03');  // the flags "more" and "long", again and again
  for (std::size_t turn = 0;; ++turn) {
    for (std::size_t i = 0; i < talkative; ++i) send(idle[i], "\xFF", 1, MSG_NOSIGNAL);
    int& next = idle[turn % idle.size()];
    send(next, frames.data(), frames.size(), MSG_NOSIGNAL);
    close(next);
    next = knock(port);
    poll(nullptr, 0, 20);
  }
}

class Siege {
 public:
  explicit Siege(int port) : process_(fork()) {
    if (process_ == 0) besiege_port(port);
  }
  ~Siege() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Siege(const Siege&) = delete;
  Siege& operator=(const Siege&) = delete;

 private:
  pid_t process_;
};

class StrangersRate : public ProgramTest {
 protected:
  StrangersRate() {
    small_gpt(64, 64, "steps = 200\nwarmup = 20\nglobal_batch = 8\nmicro_batch = 4\n");
  }
  double median_step_ms(int port) {
    const testing::Ended ended =
        run({"train", "trial.toml", "--scheme", "ps", "--world", "2", "--output", "out.json",
             "--set", "scheme.ps.transport=tcp", "--set", "scheme.ps.servers=1", "--set",
             "scheme.ps.placement=beside", "--set", "scheme.ps.port=" + std::to_string(port)});
    EXPECT_EQ(ended.status, 0) << ended.err;
    const auto out = nlohmann::json::parse(folder_.read("out.json"));
    std::filesystem::remove(path("out.json"));
    const auto& row = out.contains("row") ? out.at("row") : out;
    return row.at("step_ms").at("median").get<double>();
  }
};

TEST_F(StrangersRate, NineTenthsAreLeft) {
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    const double quiet = median_step_ms(free_port());
    const int port = free_port();
    const Siege siege(port);
    const double besieged = median_step_ms(port);
    ratios.push_back(quiet / besieged);
    std::printf("step: %.3f ms, besieged %.3f ms, rate %.3f\n", quiet, besieged, ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("median of the rates: %.3f\n", ratios[pairs / 2]);
  EXPECT_GE(ratios[pairs / 2], 0.9);
}

}  // namespace
}  // namespace ringside
