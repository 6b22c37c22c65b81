// The sockets of a job's processes.
#pragma once

#include <string>

#include "experiments/benchmark/ps_job.h"

namespace ringside {

/// Listens at the address and port of a job. Throws Error.
class JobListener {
 public:
  explicit JobListener(const PsJob& job);
  ~JobListener();
  JobListener(const JobListener&) = delete;
  JobListener& operator=(const JobListener&) = delete;

  int socket() const { return socket_; }
  int port() const;
  /// The socket of the next connection; -1 if none has come.
  int accept() const;

 private:
  int socket_;
};

/// Connects with a job's scheduler, and tries again while nobody listens. Throws Error after
/// `timeout_s`. The caller owns the socket.
int connect_to_scheduler(const PsJob& job, double timeout_s);

}  // namespace ringside
