// The real program as a child process of a test.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace ringside::testing {

struct Ended {
  int status = -1;  // exit status; -1: ended by a signal
  std::string out, err;
  double seconds = 0;  // from the program's start to its end
};

/// The program, started in a folder with its output caught. The destructor ends the program by
/// force if it still runs.
class Program {
 public:
  /// `prepare` is called in the new process, before the program takes its place.
  Program(
      const std::string& path, std::vector<std::string> arguments,
      const std::filesystem::path& folder, const std::function<void()>& prepare = [] {}) {
    int out[2], err[2];
    if (pipe(out) != 0 || pipe(err) != 0) return;
    arguments.insert(arguments.begin(), path);
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      if (chdir(folder.c_str()) != 0) _exit(126);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      for (int end : {out[0], out[1], err[0], err[1]}) close(end);
      prepare();
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(err_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }

  /// The process ids of children that the program started and that still exist.
  std::vector<pid_t> children() const {
    const auto id = std::to_string(pid_);
    std::ifstream list("/proc/" + id + "/task/" + id + "/children");
    std::vector<pid_t> pids;
    for (pid_t child; list >> child;) pids.push_back(child);
    return pids;
  }

  /// Blocks until standard output contains `text`; false if the program ended without printing it.
  bool wait_for(const std::string& text) { return wait_for(text, ended_.out); }
  /// Does the same for standard error.
  bool wait_for_error(const std::string& text) { return wait_for(text, ended_.err); }

  /// Blocks until the program and all that write to its output have ended.
  Ended wait() {
    while (read_some()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    if (WIFEXITED(status)) ended_.status = WEXITSTATUS(status);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    ended_.seconds = took.count();
    return ended_;
  }

 private:
  bool wait_for(const std::string& text, const std::string& output) {
    while (output.find(text) == std::string::npos)
      if (!read_some()) return false;
    return true;
  }
  /// Reads what has come; false once both pipes are at their end.
  bool read_some() {
    pollfd pipes[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
    poll(pipes, 2, -1);
    bool open = false;
    for (int i = 0; i < 2; ++i) {
      if (pipes[i].revents == 0) {
        open = true;
        continue;
      }
      char chunk[4096];
      const ssize_t n = ::read(pipes[i].fd, chunk, sizeof chunk);
      if (n > 0) (i == 0 ? ended_.out : ended_.err).append(chunk, static_cast<std::size_t>(n));
      open |= n > 0;
    }
    return open;
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  pid_t pid_ = 0;
  int out_ = -1, err_ = -1;
  Ended ended_;
};

}  // namespace ringside::testing
