// The authenticator, which decides which keys may connect to a server.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <zmq.hpp>

namespace ringside::ps {

/// The identities of a run's workers, as a server knows them. A worker proves that it belongs to
/// the run by the run's secret, or, if `keys` is not empty, by the secret key that belongs to its
/// public key.
struct Admission {
  int workers = 1;
  std::string secret{};
  std::map<std::string, int> keys{};  // by public key (32 bytes): the worker
};

/// The rank of a worker, as ZeroMQ's attribute of every message of an admitted connection.
inline constexpr const char* rank_attribute = "User-Id";

/// Answers ZeroMQ's requests to authenticate connections (ZAP, ZeroMQ RFC 27), in a thread of its
/// own, so that the time limit of a handshake does not depend on what a server computes. ZeroMQ
/// asks before it takes any message of a connection, and closes the connections that are not
/// admitted.
class Authenticator {
 public:
  /// All sockets of the context ask this object, which ends after the context's shutdown().
  Authenticator(zmq::context_t& context, Admission admission);

 private:
  void answer(zmq::socket_t socket) const;

  Admission admission_;
  std::jthread thread_;
};

/// The number of the worker with these credentials; -1 if no worker of this run has them.
int worker_with(const Admission& admission, std::string_view mechanism,
                const std::vector<std::string>& credentials);

}  // namespace ringside::ps
