// Server: the common part of all servers, whatever they keep for their workers.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/observe/rank_record.h"
#include "core/observe/timeline.h"
#include "ps/protocol/archive.h"
#include "ps/protocol/message.h"

namespace ringside::ps {

struct Reply {
  int worker = 0;
  Message message;
};
using Replies = std::vector<Reply>;
inline void append(Replies& replies, Replies more) {
  replies.insert(replies.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

/// A passive object: messages go in, replies come out; it has no thread and no socket. This class
/// knows who its workers are and which of them are done, answers sums over workers, and turns
/// errors into replies; everything else is answer()'s. For one thread at a time. A server of your
/// own derives from this class, or from ParameterServer (ps/protocol/parameter_server.h), and takes
/// requests of Kind::own, which no other server knows.
class Server {
 public:
  /// The line of a trace that shows servers, and the category of what it shows.
  static constexpr const char* track = "serving";

  /// `server` and `workers` count the servers and the workers of the run; messages without `token`
  /// are refused. The device outlives the server.
  Server(Device& device, int server, int workers, std::uint64_t token);
  virtual ~Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Handles a message of `worker` and returns the replies that it causes, to this worker and to
  /// others that waited. A wrong message changes nothing; its reply is an error that names the
  /// cause.
  Replies handle(int worker, Message message);

  std::uint64_t token() const { return token_; }
  /// What a trace shows of this server alone; nothing of it counts as an activity of a worker.
  Timeline& timeline() { return timeline_; }
  /// Throws Error if handle() would refuse the message whatever the values of its frames: it is
  /// nobody's of the run, or its frames are not those that its header calls for.
  void check_frames(int worker, const Header& header, std::span<const FrameShape> frames) const;

  bool is_done(int worker) const { return done_[static_cast<std::size_t>(worker)]; }
  /// Whether every worker has said that it is done, or is lost.
  bool finished() const;
  /// Names the first worker that gave up, and its reason; empty while no worker has given up.
  const std::string& failure() const { return failure_; }

  /// The step of which the server still waits for a part of some worker; for error messages.
  virtual std::int64_t steps() const { return 0; }
  /// Says that the process of a worker has ended before the worker was done. Returns the replies
  /// that this causes. Throws Error that names the worker if the run cannot go on without it.
  virtual Replies lose(int worker);
  /// The workers that wait until others are done with their whole training, and so have to be told
  /// now and then that the server is alive.
  virtual std::vector<int> patient() const { return {}; }
  /// Writes what this server knows into the record of its rank. May block until its device has
  /// finished.
  virtual void report(RankRecord& record) { static_cast<void>(record); }

 protected:
  /// Answers a message of a kind that this class does not know. Throws Error to refuse a message,
  /// which must then have changed nothing.
  virtual Replies answer(int worker, Message message);
  /// Throws Error if answer() would refuse the message whatever the values of its frames.
  virtual void check_request(const Header& header, std::span<const FrameShape> frames) const {
    static_cast<void>(header), static_cast<void>(frames);
  }

  Device& device() const { return device_; }
  /// Shows a part of what the server does in the trace, if there is one; `name()` is its name.
  template <class Name>
  [[nodiscard]] Timeline::Scope traced(const Name& name, SpanNote note = {}) {
    note.track = track;
    return timeline_.traced(track, name, std::move(note));
  }
  int server() const { return server_; }
  int workers() const { return static_cast<int>(done_.size()); }
  bool is_lost(int worker) const { return lost_[static_cast<std::size_t>(worker)]; }
  /// From now on nothing comes from this worker, and no sum waits for it. Returns the replies of a
  /// sum that waited for this worker alone.
  Replies count_as_lost(int worker);

 private:
  void check_sender(int worker, const Header& header) const;
  Replies sum(int worker, const Header& header, const std::vector<Tensor>& frames);
  /// Ends the sum under way if all workers that are there have given their values.
  Replies end_sum();

  Device& device_;
  Timeline timeline_;
  int server_;
  std::uint64_t token_;
  std::vector<bool> done_, lost_;
  std::string failure_;
  std::int64_t sums_done_ = 0;
  std::vector<std::optional<std::vector<double>>> summands_;  // by worker, for the sum under way
};

}  // namespace ringside::ps
