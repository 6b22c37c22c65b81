// A fixture for tests of `ringside bench ps` whose processes are started one by one.
#pragma once

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/experiments/bench_ps.h"
#include "tests/support/held_port.h"

namespace ringside {

/// A job whose processes are started one by one. Each gets the environment of ps-lite.
class PsJobs : public BenchPs {
 protected:
  PsJobs() {
    set("DMLC_PS_ROOT_URI", "127.0.0.1");
    set("DMLC_PS_ROOT_PORT", std::to_string(port_.number()));
    set("DMLC_NUM_WORKER", "2");
    set("DMLC_NUM_SERVER", "1");
  }

  int connect_to_scheduler() const {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(
        connect(made, reinterpret_cast<const sockaddr*>(&port_.address()), sizeof port_.address()),
        0);
    return made;
  }
  static void say(int socket, const std::string& text) {
    EXPECT_EQ(send(socket, text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  }
  /// The next line from the scheduler; the rest before the end if it closes the connection.
  static std::string hear_line(int socket) {
    std::string line;
    for (char c = 0; recv(socket, &c, 1, 0) == 1 && c != '\n';) line += c;
    return line;
  }
  /// Sends a text to the scheduler, and returns the scheduler's answer before it closes the
  /// connection.
  std::string answer_to(const std::string& text) const {
    const int made = connect_to_scheduler();
    say(made, text);
    const std::string answer = hear_line(made);
    char c = 0;
    EXPECT_LE(recv(made, &c, 1, 0), 0) << "the scheduler keeps the connection";
    close(made);
    return answer;
  }
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

  testing::HeldPort port_;
  std::map<std::string, std::string> environment_;
};

}  // namespace ringside
