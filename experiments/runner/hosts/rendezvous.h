// The rendezvous of a job: the leader's address, and the connections of the other processes with
// it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ps/transport/zmq/keyed_streams.h"

namespace ringside::runner {

/// The longest first line of a connection, in bytes.
inline constexpr std::size_t longest_job_line = 64 << 10;
/// The time in which a connection must identify itself, in seconds.
inline constexpr double introduction_s = 5;
/// The largest number of connections that have not identified themselves.
inline constexpr std::size_t most_unknown = 64;

/// The facts about a job that each of its processes needs to join it, with the texts for errors
/// about them.
struct Rendezvous {
  std::string address = "127.0.0.1";  // of the leader, as four numbers
  int port = 0;                       // of the leader; its own may be 0: any free port
  /// The folder of the job's keys (ps/transport/zmq/keys.h), and the name of this process's key.
  /// With keys both ends of a connection prove that they have theirs. Without, all processes of the
  /// job are of one user of one host, and the address is one of the loopback interface.
  std::string keys{}, key{};
  std::string drawn_keys{};  // in place of a folder: the text of draw_keys()
  std::string leader = "scheduler";
  std::string address_option = "DMLC_PS_ROOT_URI", port_option = "DMLC_PS_ROOT_PORT";
  /// Advice for the error if no leader listens.
  std::string remedy = "start it with the same environment and DMLC_ROLE=scheduler";
  /// The option that sets an address which other hosts reach, for the error if they do not reach
  /// this one.
  std::string other_address = "MASTER_ADDR";
};

/// Whether the processes authenticate each other by keys.
inline bool keyed(const Rendezvous& meeting) {
  return !meeting.keys.empty() || !meeting.drawn_keys.empty();
}

/// Throws Error for an address that is none, or that other hosts reach although the job has no
/// keys; `option` is how the user gives the address.
void check_address(const std::string& option, const std::string& address, bool keyed);

/// The owner of the key with which a connection was made; none without keys.
struct KeyHolder {
  bool server = false;
  int worker = -1;
  bool operator==(const KeyHolder&) const = default;
};

/// A connection with a process of this user, or of a holder of one of the job's keys.
struct JobConnection {
  int socket = -1;  // owned by the holder of the connection
  std::optional<KeyHolder> holder{};
};

/// Listens for the processes of a job.
class JobListener {
 public:
  /// Listens on `listens_at`, if that is not empty, in place of the rendezvous's address. Takes the
  /// keys of workers 0 to `workers` - 1 and of the servers, and no more than `most_streams`
  /// connections at once. A host that does not answer for `unheard_s` is given up. Throws Error.
  JobListener(const Rendezvous& meeting, const std::string& listens_at, int workers,
              int most_streams, double unheard_s);
  ~JobListener();
  JobListener(const JobListener&) = delete;
  JobListener& operator=(const JobListener&) = delete;

  /// Can be read while a connection waits.
  int file() const;
  int port() const;
  /// The next connection; none if none has come. Throws Error that says why a connection is
  /// refused, which is then closed.
  std::optional<JobConnection> accept();
  /// The number of connections that ended without one of the job's keys.
  std::size_t strangers() const { return keyed_ ? keyed_->strangers() : 0; }
  /// Stops listening.
  void close();

 private:
  void listen(const Rendezvous& meeting);

  int socket_ = -1;                           // without keys
  std::optional<ps::KeyedListener> keyed_{};  // with keys
};

/// A connection with the leader of a job.
class LeaderLink {
 public:
  /// Tries again while there is no listener. A host that does not answer for `unheard_s` is given
  /// up. Throws Error after `timeout_s`, or if either side refuses the other.
  LeaderLink(const Rendezvous& meeting, double timeout_s, double unheard_s);
  ~LeaderLink();
  LeaderLink(const LeaderLink&) = delete;
  LeaderLink& operator=(const LeaderLink&) = delete;

  /// The caller owns the socket from now on.
  int release_socket();
  /// Blocks until all data written has been sent, at most 3 s. The socket has been closed before.
  void finish() { keyed_.reset(); }

 private:
  int socket_ = -1;
  std::unique_ptr<ps::KeyedStream> keyed_;
};

/// The address of this host by which it reaches another address; `remedy` is the advice for the
/// error if there is no route. Throws Error.
std::string own_address_towards(const std::string& address, const std::string& remedy);

}  // namespace ringside::runner
