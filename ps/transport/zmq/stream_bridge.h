// StreamBridge: local stream sockets whose bytes travel over a ZeroMQ socket.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <zmq.hpp>

#include "ps/transport/zmq/context.h"
#include "ps/transport/zmq/listener.h"

namespace ringside::ps {

/// Carries bytes between local stream sockets and the connections of a ZeroMQ socket: any number of
/// a ROUTER, by ZeroMQ's names for them, or the one of a DEALER, whose name is empty. A derived
/// class sets the ZeroMQ socket up, and calls carry() on a thread of its own. For one thread at a
/// time.
class StreamBridge {
 public:
  StreamBridge(const StreamBridge&) = delete;
  StreamBridge& operator=(const StreamBridge&) = delete;

 protected:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;
  /// carry() sleeps no longer, and a ROUTER asks as often whether the other ends are there.
  static constexpr milliseconds nap{100};

  /// A stream ends after `unheard_s` without an answer from the other host's system.
  StreamBridge(zmq::socket_type type, double unheard_s);
  virtual ~StreamBridge() = default;

  ZmqContext& context() { return context_; }
  zmq::socket_t& socket() { return zmq_; }

  /// Makes the stream of a connection, and returns this process's end.
  Descriptor add(const std::string& id);
  /// The same for the connection of a DEALER, and tells the other side that it begins.
  Descriptor begin_stream();
  /// Tells the other side of a connection that it has no stream.
  void refuse(const std::string& id) { send(id, {end_word}); }
  std::size_t streams() const { return streams_.size(); }
  /// All streams have ended on the other side.
  void leave_all();
  /// Ends all streams at once; this process sees that.
  void end_all() { streams_.clear(); }

  /// Carries until the stream of a DEALER has ended, or, after a request to stop, until what this
  /// process has written has left, for two seconds at most.
  void carry(const std::stop_token& stop);
  /// Waits for something to carry, or for events().
  void wait(milliseconds longest);

 private:
  /// Every message is one of these letters; bytes of the stream follow `data`. A stream begins with
  /// `begin`, so that what is left of one that the listener has ended is not taken for another.
  static constexpr char begin_word = 'b', data_word = 'd', alive_word = 'a', end_word = 'e';

  struct Stream {
    Descriptor local;                     // the end of this thread
    std::optional<std::string> unsent{};  // a message that ZeroMQ does not take yet
    std::string unread{};                 // bytes that this process does not take yet
    /// The stream has ended: until then, bytes that have come wait for this process.
    std::optional<Clock::time_point> leaves{};

    void leave();
    /// A message of what this process has written; none if that is nothing.
    std::optional<std::string> read() const;
    /// Hands over what waits, as far as this process takes it.
    void flush();
  };

  /// What else ends a wait.
  virtual zmq::pollitem_t events() = 0;
  /// Called after each wait; returns how long the next may take.
  virtual milliseconds attend() = 0;
  /// A message wants to begin a stream over a connection that has none.
  virtual void begin(const std::string&, const zmq::message_t&) {}

  /// Whether ZeroMQ takes a message; none if the other side is gone.
  std::optional<bool> send(const std::string& id, const std::string& message);
  void send_written(const std::string& id, Stream& stream);
  bool is_full() const;
  void receive();
  void take(const std::string& id, const zmq::message_t& part);

  bool routes_;
  ZmqContext context_;
  zmq::socket_t zmq_;
  std::map<std::string, Stream> streams_;  // by connection
};

}  // namespace ringside::ps
