// Client: a worker's requests to its servers.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/timeline.h"
#include "ps/protocol/channel.h"

namespace ringside::ps {

struct ClientConfig {
  int worker = 0;
  int servers = 1;
  std::uint64_t token = 0;
  double timeout_s = 60;
};

/// Keeps a few requests in flight to every server and matches the replies. Nothing happens outside
/// of its calls. Every call throws Error that names the server when one refuses a request, gives
/// up, or says nothing for `timeout_s` while an answer is awaited. Records a span of communication
/// from each request to its reply, and as exposed what the calling thread spends on waiting and on
/// replies. For one thread.
class Client {
 public:
  /// Requests unanswered at one server; more wait here. Enough to bridge the compute between two
  /// calls; it bounds what a server has to keep for workers that are ahead.
  static constexpr std::size_t window = 8;

  Client(std::unique_ptr<Channel> channel, const ClientConfig& config, const Clock& clock,
         Timeline& timeline);
  /// Tells the servers that this worker is done or, while an exception is on its way, that it
  /// failed.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  using OnReply = std::function<void(const Message& reply)>;
  /// Sends `request` when its turn comes and has `on_reply` called by a later call of this class.
  /// `what` names it in errors and traces. Does not block.
  void ask(int server, Message request, std::string what, OnReply on_reply);
  /// The reply. Blocks.
  Message call(int server, Message request, std::string what);
  /// A message without a reply.
  void tell(int server, Message message);

  /// Handles the replies that there are and sends what may go. Does not block.
  void progress();
  /// Blocks until `done()`, which replies bring about; `what` names it in errors and traces where
  /// no request does. Throws Error at once if no request is left whose reply could.
  void wait(const std::string& what, const std::function<bool()>& done);
  /// Blocks until every request has been sent; until every reply is there.
  void flush();
  void drain();

  /// The sums of fp64 values (none: empty) over workers, in rank order; all give as many.
  /// Collective; blocks.
  Tensor sum(const Tensor& values);

  int worker() const { return config_.worker; }
  Traffic traffic() const { return channel_->traffic(); }

 private:
  struct Request {
    Message message;
    std::string what;
    OnReply on_reply;
    Mark begin;
  };
  struct Line {  // to one server
    std::deque<Request> queued, asked;
    double last_sent = 0;
  };

  bool receive(double timeout_s);
  void take_reply(int server, const Message& reply);
  void send_queued();
  void sign(Message& message) const;
  void send(int server, Message message);
  void say_alive();
  /// The first request without a reply; null where there is none.
  std::optional<std::string> awaited() const;

  std::unique_ptr<Channel> channel_;
  ClientConfig config_;
  const Clock& clock_;
  Timeline& timeline_;
  std::vector<Line> lines_;
  std::int64_t sums_ = 0;
  int exceptions_;  // on their way when this was made
};

}  // namespace ringside::ps
