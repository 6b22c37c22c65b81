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
inline bool keyed(const Rendezvous& rendezvous) {
  return !rendezvous.keys.empty() || !rendezvous.drawn_keys.empty();
}

/// Throws Error for an address that is none, or that other hosts reach although the job has no
/// keys; `option` is how the user gives the address.
void check_address(const std::string& option, const std::string& address, bool keyed);

/// Listens for the processes of a job, at the address `listens_at` or, if that is empty, at the
/// rendezvous's. Accepts holders of the keys of workers 0 to `workers` - 1 and of the servers, at
/// most `most_streams` at once; without keys, processes of this user. A host that does not answer
/// for `unheard_s` is given up. Throws Error.
std::unique_ptr<ps::StreamListener> listen_for_job(const Rendezvous& rendezvous,
                                                   const std::string& listens_at, int workers,
                                                   int most_streams, double unheard_s);

/// Connects with the leader of a job, and tries again while there is no listener. A host that does
/// not answer for `unheard_s` is given up. The destructor of the link blocks until all data written
/// has been sent, at most 3 s. Throws Error after `timeout_s`, or if either side refuses the other.
std::unique_ptr<ps::StreamLink> connect_to_leader(const Rendezvous& rendezvous, double timeout_s,
                                                  double unheard_s);

/// The address of this host by which it reaches another address; `remedy` is the advice for the
/// error if there is no route. Throws Error.
std::string own_address_towards(const std::string& address, const std::string& remedy);

}  // namespace ringside::runner
