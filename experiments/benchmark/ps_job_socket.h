// The sockets of a job's processes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "experiments/benchmark/ps_job.h"
#include "ps/wires/zmq/keyed_streams.h"

namespace ringside {

/// No line of a job is longer.
inline constexpr std::size_t longest_job_line = 64 << 10;
/// How long a connection may take to say who it is.
inline constexpr double introduction_s = 5;
/// The most connections that have not said who they are.
inline constexpr std::size_t most_unknown = 64;

/// By whose key a connection was made; none without keys.
struct KeyHolder {
  bool server = false;
  int worker = -1;
};

/// A connection with a process of this user, or of a holder of one of the job's keys.
struct JobConnection {
  int socket = -1;  // whoever has the connection owns it
  std::optional<KeyHolder> holder{};
};

/// Listens at the address and port of a job. A host that does not answer for `timeout_s` is given
/// up. Throws Error.
class JobListener {
 public:
  JobListener(const PsJob& job, double timeout_s);
  ~JobListener();
  JobListener(const JobListener&) = delete;
  JobListener& operator=(const JobListener&) = delete;

  /// Can be read while a connection waits.
  int file() const;
  int port() const;
  /// The next connection; none if none has come. Throws Error that says why a connection is
  /// refused, which is then closed.
  std::optional<JobConnection> accept();
  /// Nobody can connect any more.
  void close();

 private:
  void listen(const PsJob& job);

  int socket_ = -1;                           // without keys
  std::optional<ps::KeyedListener> keyed_{};  // with keys
};

/// A connection with a job's scheduler.
class SchedulerLink {
 public:
  /// Tries again while nobody listens. Throws Error after `timeout_s`, or if either side refuses
  /// the other.
  SchedulerLink(const PsJob& job, double timeout_s);
  ~SchedulerLink();
  SchedulerLink(const SchedulerLink&) = delete;
  SchedulerLink& operator=(const SchedulerLink&) = delete;

  /// The caller owns the socket from now on.
  int release_socket();
  /// Blocks until what was written has left, three seconds at most; the socket has been closed.
  void finish() { keyed_.reset(); }

 private:
  int socket_ = -1;
  std::unique_ptr<ps::KeyedStream> keyed_;
};

/// The address of this host by which it reaches the scheduler. Throws Error.
std::string own_address(const PsJob& job);

}  // namespace ringside
