#include "ps/protocol/client.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "core/base/error.h"
#include "core/base/waiting_time.h"
#include "ps/protocol/push_flow.h"

namespace ringside::ps {

Client::Client(std::unique_ptr<Channel> channel, const ClientConfig& config, const Clock& clock,
               Timeline& timeline)
    : channel_(std::move(channel)),
      config_(config),
      clock_(clock),
      timeline_(timeline),
      connections_(static_cast<std::size_t>(config.servers)),
      exceptions_(std::uncaught_exceptions()) {
  // A server can reach only workers that have sent a message, and the first message must be a
  // greeting.
  for (int server = 0; server < config_.servers; ++server) {
    connections_[static_cast<std::size_t>(server)].track = fmt::format("server {}", server);
    Message hello;
    hello.header.kind = Kind::hello;
    hello.header.text = config_.greeting;
    hello.header.step = config_.process;
    tell(server, std::move(hello));
  }
}

Client::~Client() {
  for (int server = 0; server < config_.servers; ++server) {
    Message message;
    message.header.kind = Kind::done;
    if (std::uncaught_exceptions() > exceptions_) {
      message.header.kind = Kind::failed;
      message.header.text = refusal_.empty() ? "an error ended it" : refusal_;
    }
    sign(message);
    channel_->try_send(server, std::move(message));
  }
}

void Client::ask(int server, Message request, std::string what, OnReply on_reply,
                 std::int64_t rank) {
  ServerConnection& connection = connections_[static_cast<std::size_t>(server)];
  connection.used = true;
  std::deque<Request>& queued = connection.queued;
  const auto later = [](std::int64_t mine, const Request& other) { return mine < other.rank; };
  queued.insert(std::upper_bound(queued.begin(), queued.end(), rank, later),
                {rank, std::move(request), std::move(what), std::move(on_reply), {}});
  send_queued();
}

Message Client::call(int server, Message request, std::string what) {
  std::optional<Message> answer;
  ask(server, std::move(request), what, [&](const Message& reply) { answer = reply; });
  wait(what, [&] { return answer.has_value(); });
  return std::move(*answer);
}

void Client::tell(int server, Message message) {
  const Header& header = message.header;
  if (header.kind != Kind::push || !timeline_.traces()) return send(server, std::move(message));
  sign(message);
  const auto span = timeline_.traced("launch", [] { return std::string("push"); },
                                     {.bytes = frame_bytes(message), .flows = {push_flow(header)}});
  send(server, std::move(message));
}

void Client::progress() {
  while (receive(0)) {
  }
  say_alive();
}

void Client::wait(const std::string& what, const std::function<bool()>& done) {
  progress();
  if (done()) return;
  const auto [first_server, first] = awaited();
  const auto span = timeline_.scope(
      Activity::exposed, first ? fmt::format("'{}' of step {} from server {}", first->what,
                                             first->message.header.step, first_server)
                               : what);
  const double nap = config_.timeout_s / 8;
  WaitingTime silence(clock_.now(), nap);
  SlowLink link;
  if (first) link.begin(channel_->moved(first_server));
  while (!done()) {
    send_queued(true);
    const double left = config_.timeout_s - silence.seconds(clock_.now());
    const auto [server, request] = awaited();
    if (!request) throw Error("the worker waits for {}, but has sent no request for it", what);
    if (left <= 0)
      throw Error(
          "server {} has not answered request '{}' of step {} within {:g} s; raise "
          "train.timeout_s if the server is really busy for that long",
          server, request->what, request->message.header.step, config_.timeout_s);
    const bool came = receive(std::min(left, nap));
    if (came || link.flows(channel_->moved(server))) silence = WaitingTime(clock_.now(), nap);
    say_alive();
  }
}

void Client::flush() {
  wait("all requests to be sent", [&] {
    return std::all_of(connections_.begin(), connections_.end(),
                       [](const ServerConnection& l) { return l.queued.empty(); });
  });
}

void Client::drain() {
  wait("all replies", [&] {
    return std::all_of(connections_.begin(), connections_.end(), [](const ServerConnection& l) {
      return l.queued.empty() && l.asked.empty();
    });
  });
}

void Client::finish() {
  for (int server = 0; server < config_.servers; ++server) {
    Message request;
    request.header.kind = Kind::finish;
    ask(server, std::move(request), "finish", [](const Message&) {});
  }
  drain();
}

std::optional<std::int64_t> Client::join() {
  std::int64_t first = 0;
  bool over = false;
  const auto ask_all = [this](std::int64_t number, const OnReply& on_reply) {
    for (int server = 0; server < config_.servers; ++server) {
      Message request;
      request.header.kind = Kind::join;
      request.header.step = number;
      ask(server, std::move(request), "join", on_reply);
    }
    drain();
  };
  ask_all(0, [&](const Message& reply) {
    first = std::max(first, reply.header.version);
    over = over || reply.header.scalar > 0;
  });
  ask_all(first, [](const Message&) {});
  if (over) return {};
  return first;
}

Tensor Client::sum(const Tensor& values) {
  Message request;
  request.header.kind = Kind::sum;
  request.header.step = sums_++;
  if (values) request.frames = {values};
  const Message reply = call(0, std::move(request), "sum over workers");
  if (!values) return {};
  if (reply.frames.size() != 1 || reply.frames[0].dtype() != DType::f64 ||
      reply.frames[0].count() != values.count())
    throw Error("server 0 sent no sum of {} values", values.count());
  return reply.frames[0];
}

bool Client::receive(double timeout_s) {
  std::optional<Received> received = channel_->receive(timeout_s);
  if (!received) return false;
  const auto span = timeline_.scope(Activity::exposed, "reply");
  take_reply(received->peer, received->message);
  send_queued();
  return true;
}

void Client::take_reply(int server, const Message& reply) {
  const Header& header = reply.header;
  if (header.kind == Kind::error) {
    refusal_ = fmt::format("server {}: {}", server, header.text);
    throw Error("{}", refusal_);
  }
  if (header.token != config_.token || header.worker != config_.worker || !header.reply)
    throw Error("server {} sent a message that is not a reply to this worker", server);
  if (header.kind == Kind::alive) return;  // the server waits for other workers, as this one does
  if (header.kind == Kind::merge) return pass_on(server, reply);
  std::deque<Request>& asked = connections_[static_cast<std::size_t>(server)].asked;
  const auto matches = [&](const Request& request) {
    const Header& h = request.message.header;
    return h.kind == header.kind && h.step == header.step && h.begin == header.begin &&
           h.micro_batch == header.micro_batch;
  };
  const auto found = std::find_if(asked.begin(), asked.end(), matches);
  if (found == asked.end())
    throw Error("server {} sent a reply to a {} that this worker has not sent", server,
                name_of(header.kind));
  Request request = std::move(*found);
  asked.erase(found);
  request.on_reply(reply);
  request.note.bytes += frame_bytes(reply);
  timeline_.add(Activity::communication, std::move(request.what), request.begin, timeline_.now(),
                std::move(request.note));
}

void Client::pass_on(int from, const Message& message) {
  for (int server = 0; server < config_.servers; ++server)
    if (server != from) {
      Message copy = message;
      copy.header.reply = false;
      send(server, std::move(copy));
    }
}

Client::ServerConnection* Client::next_connection(bool waits) {
  std::size_t unanswered = 0, used = 0;
  for (const ServerConnection& connection : connections_) {
    unanswered += connection.asked.size();
    used += connection.used ? 1 : 0;
  }
  const bool full = config_.paced && unanswered >= paced_window * used;
  const auto has_turn = [&](const ServerConnection& connection) {
    const auto more_urgent = [&](const Request& r) {
      return connection.queued.front().rank < r.rank;
    };
    const auto than_all_of = [&](const ServerConnection& l) {
      return std::ranges::all_of(l.asked, more_urgent);
    };
    if (!full && connection.asked.size() < window) return true;
    return waits && (config_.paced ? std::ranges::all_of(connections_, than_all_of)
                                   : than_all_of(connection));
  };
  ServerConnection* next = nullptr;
  for (ServerConnection& connection : connections_) {
    if (connection.queued.empty() || !has_turn(connection)) continue;
    if (!config_.paced) return &connection;
    if (!next || connection.queued.front().rank < next->queued.front().rank) next = &connection;
  }
  return next;
}

void Client::send_queued(bool waits) {
  while (ServerConnection* connection = next_connection(waits)) {
    Request request = std::move(connection->queued.front());
    connection->queued.pop_front();
    request.begin = timeline_.now();
    const auto server = static_cast<int>(connection - connections_.data());
    request.note = note_of(server, request.message);
    send(server, request.message);
    request.message.frames.clear();
    connection->asked.push_back(std::move(request));
  }
}

SpanNote Client::note_of(int server, Message& request) {
  ServerConnection& connection = connections_[static_cast<std::size_t>(server)];
  SpanNote note{.track = connection.track,
                .operation = name_of(request.header.kind),
                .bytes = frame_bytes(request),
                .sequence = ++connection.requests};
  if (request.header.kind != Kind::push_pull || !timeline_.traces()) return note;
  sign(request);
  note.flows = {push_flow(request.header)};
  return note;
}

void Client::sign(Message& message) const {
  message.header.token = config_.token;
  message.header.worker = config_.worker;
}

void Client::send(int server, Message message) {
  sign(message);
  channel_->send(server, std::move(message));
  connections_[static_cast<std::size_t>(server)].last_sent = clock_.now();
}

/// Sends a heartbeat to servers to which this worker has sent nothing for a while, so that they can
/// distinguish a worker that computes for a long time from a dead one.
void Client::say_alive() {
  for (int server = 0; server < config_.servers; ++server)
    if (clock_.now() - connections_[static_cast<std::size_t>(server)].last_sent >
        config_.timeout_s / 4)
      tell(server, {});
}

std::pair<std::size_t, const Client::Request*> Client::awaited() const {
  for (std::size_t server = 0; server < connections_.size(); ++server) {
    const ServerConnection& connection = connections_[server];
    const std::deque<Request>& requests =
        connection.asked.empty() ? connection.queued : connection.asked;
    if (!requests.empty()) return {server, &requests.front()};
  }
  return {};
}

}  // namespace ringside::ps
