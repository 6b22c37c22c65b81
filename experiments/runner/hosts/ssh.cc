#include "experiments/runner/hosts/ssh.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include "core/base/error.h"
#include "core/launch/other_program.h"
#include "core/launch/process_end.h"

namespace ringside::runner {
namespace {

constexpr int most_slots = 1024;
constexpr auto ssh_poll = std::chrono::milliseconds(10);
constexpr auto last_words = std::chrono::seconds(3);

SshHost host_given(const std::string& text) {
  const auto colon = text.find(':');
  SshHost host{.name = text.substr(0, colon)};
  const std::string slots = colon == std::string::npos ? "1" : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(slots.data(), slots.data() + slots.size(), host.slots);
  if (host.name.empty() || host.name.front() == '-' || error != std::errc{} ||
      end != slots.data() + slots.size() || host.slots < 1 || host.slots > most_slots)
    throw Error(
        "--hosts: '{}' is no host with a number of slots from 1 to {}; write NAME or NAME:SLOTS, "
        "with commas between",
        text, most_slots);
  return host;
}

/// A file from which the text can be read, and nothing after it.
int file_with(const std::string& text) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    throw Error("cannot make a socket for ssh: {}", std::strerror(errno));
  const ssize_t sent = send(sockets[0], text.data(), text.size(), MSG_NOSIGNAL);
  close(sockets[0]);
  if (sent != std::ssize(text)) {
    close(sockets[1]);
    throw Error("ssh cannot be given its {} bytes of input", text.size());
  }
  return sockets[1];
}

}  // namespace

std::vector<SshHost> hosts_given(const std::string& list) {
  std::vector<SshHost> hosts;
  std::set<std::string> names;
  std::istringstream texts(list);
  for (std::string text; std::getline(texts, text, ',');) {
    hosts.push_back(host_given(text));
    if (!names.insert(hosts.back().name).second)
      throw Error("--hosts: {} is named twice; give it all its slots at once", hosts.back().name);
  }
  if (hosts.empty()) throw Error("--hosts names no host");
  return hosts;
}

SshAgents::SshAgents(const SshStart& start) {
  const std::string file = file_of_command(start.ssh.front(), start.environment);
  if (file.empty())
    throw Error("'{}', which starts agents on other hosts, is no program in PATH",
                start.ssh.front());
  for (std::size_t host = 0; host < start.hosts.size(); ++host) {
    std::vector<std::string> words = start.ssh;
    words.front() = file;
    words.push_back(start.hosts[host].name);
    words.push_back(start.command(host));
    const int input = file_with(start.input);
    const std::unique_ptr<const int, void (*)(const int*)> owner(&input,
                                                                 [](const int* f) { close(*f); });
    agents_.emplace_back(start.hosts[host].name, std::move(words), start.environment, input);
  }
}

std::string SshAgents::finish() {
  const auto end = std::chrono::steady_clock::now() + last_words;
  std::string written;
  for (Agent& agent : agents_) {
    while (!agent.process.reap() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(ssh_poll);
    agent.process.signal(SIGTERM);
    written += agent.process.output().read();
  }
  return written;
}

void SshAgents::check() {
  for (Agent& agent : agents_) {
    if (!agent.process.reap()) continue;
    agent.process.output().read();
    const std::string& line = agent.process.output().last_line();
    throw Error("host {}: ssh ended with {}{}", agent.host,
                agent.process.status() ? words_for_end(*agent.process.status())
                                       : std::string("an unknown status"),
                line.empty() ? "" : ": " + line);
  }
}

}  // namespace ringside::runner
