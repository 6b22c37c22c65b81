// Client: a worker's requests to its servers.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/observe/timeline.h"
#include "ps/protocol/channel.h"

namespace ringside::ps {

struct ClientConfig {
  int worker = 0;
  int servers = 1;
  std::uint64_t token = 0;
  double timeout_s = 60;
  std::string greeting{};    // of this worker (ps/protocol/greeting.h)
  std::int64_t process = 0;  // the number of this process in the worker's seat
  /// Whether servers keep parts of different sizes. The messages of all servers share the worker's
  /// link evenly; without pacing those of small parts end early, and the rest of the link is idle
  /// while the largest part is on its way. So a paced client sends the most urgent requests first,
  /// whichever their server, and limits the unanswered requests over all servers.
  bool paced = false;
};

/// Keeps a few requests in flight to every server and matches replies to requests. Has no thread of
/// its own: it sends and receives only while one of its functions is called. Every function throws
/// Error that names the server when a server refuses a request, gives up, or is silent for
/// `timeout_s` while the client awaits an answer. Records as communication the time from each
/// request to its reply, and as exposed the time in which the calling thread waits or handles
/// replies. For one thread.
class Client {
 public:
  /// The most unanswered requests at one server; further requests wait in the client, where more
  /// urgent ones overtake them. The number is large enough to bridge the compute between two calls,
  /// and it bounds the memory that a server needs for workers that are ahead. A client that waits
  /// sends one request beyond the limit if it is more urgent than all unanswered ones. This
  /// prevents deadlock: the window may be full of requests that need other workers, whose windows
  /// are full of different requests. As all workers rank the requests in one order, the most urgent
  /// unanswered request is always at the server.
  static constexpr std::size_t window = 8;
  /// The most unanswered requests of a paced client over all servers, divided by the number of
  /// servers. With fewer the link is sometimes idle; with more the small parts run ahead again.
  static constexpr std::size_t paced_window = 2;

  Client(std::unique_ptr<Channel> channel, const ClientConfig& config, const Clock& clock,
         Timeline& timeline);
  /// Tells the servers that this worker is done, or that it failed if an exception is destroying
  /// the client: then with what a server refused, so that whoever hears of it first names the
  /// cause.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  using OnReply = std::function<void(const Message& reply)>;
  /// Queues `request`; a later call of any function of this class calls `on_reply` with the reply.
  /// `what` names the request in errors and traces. Requests with a smaller `rank` are more urgent:
  /// they overtake others that have not been sent yet (ByteScheduler; Peng et al., SOSP 2019). Does
  /// not block.
  void ask(int server, Message request, std::string what, OnReply on_reply,
           std::int64_t rank = most_urgent);
  /// Sends `request`, blocks until its reply has come and returns the reply.
  Message call(int server, Message request, std::string what);
  /// Sends a message that has no reply.
  void tell(int server, Message message);

  /// Handles the replies that have arrived and sends queued requests within the limits. Does not
  /// block.
  void progress();
  /// Blocks until `done()` is true; replies make it true. If every request has its reply and
  /// `done()` is still false, throws Error; there `what` names what the worker waits for.
  void wait(const std::string& what, const std::function<bool()>& done);
  /// flush() blocks until every request has been sent, drain() until every reply has come.
  void flush();
  void drain();

  /// Takes the worker's seat, whose process before has gone: returns the number of the first push,
  /// or none if the run is over. Blocks. Meanwhile updates of all workers wait on servers that
  /// expect this one.
  std::optional<std::int64_t> join();

  /// Tells all servers that this worker has made its last push, and blocks until all workers have,
  /// without a deadline.
  void finish();

  /// Returns the sums of fp64 values over all workers, in rank order. All workers give equally many
  /// values, possibly none (an empty tensor). Collective; blocks.
  Tensor sum(const Tensor& values);

  int worker() const { return config_.worker; }
  Traffic traffic() const { return channel_->traffic(); }

 private:
  static constexpr std::int64_t most_urgent = -1;
  struct Request {
    std::int64_t rank = most_urgent;
    Message message;
    std::string what;
    OnReply on_reply;
    Mark begin;
    SpanNote note{};
  };
  struct ServerConnection {             // the connection to one server
    std::deque<Request> queued, asked;  // the queued ones by rank
    bool used = false;                  // a request has been sent
    std::int64_t requests = 0;          // number of requests sent
    std::string track{};                // the track of traces that shows this connection
    double last_sent = 0;
  };

  bool receive(double timeout_s);
  void take_reply(int server, const Message& reply);
  /// Sends a server's message to the other servers.
  void pass_on(int from, const Message& message);
  void send_queued(bool waits = false);
  /// The connection whose first queued request may be sent now; null if there is none.
  ServerConnection* next_connection(bool waits);
  /// The note of a request's span in a trace.
  SpanNote note_of(int server, Message& request);
  void sign(Message& message) const;
  void send(int server, Message message);
  void say_alive();
  /// The number of a server, and the first request there that has no reply yet; nullptr if every
  /// request has its reply.
  std::pair<std::size_t, const Request*> awaited() const;

  std::unique_ptr<Channel> channel_;
  ClientConfig config_;
  const Clock& clock_;
  Timeline& timeline_;
  std::vector<ServerConnection> connections_;
  std::int64_t sums_ = 0;
  std::string refusal_;  // what a server refused; the other servers hear it as this worker's end
  int exceptions_;       // std::uncaught_exceptions() when this client was made
};

}  // namespace ringside::ps
