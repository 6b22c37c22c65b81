// Server: the common part of all servers, whatever they keep for their workers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/observe/rank_record.h"
#include "core/observe/timeline.h"
#include "ps/protocol/archive.h"
#include "ps/protocol/meetings.h"
#include "ps/protocol/message.h"
#include "ps/protocol/replies.h"
#include "ps/protocol/server_state.h"
#include "ps/protocol/worker_seats.h"
#include "ps/protocol/worker_sums.h"

namespace ringside::ps {

/// A server as a passive object without a thread and without a socket: messages go in, replies come
/// out. This class keeps the workers' seats, answers sums over workers, and turns errors into
/// replies; answer() handles everything else. For one thread at a time. A new kind of server
/// derives from this class, or from ParameterServer (ps/protocol/parameter_server.h), and takes
/// requests of Kind::own.
class Server : public ServerState {
 public:
  /// The track of a trace that shows servers, and the category of its spans.
  static constexpr const char* track = "serving";

  /// `server` and `workers` count the servers and the workers of the run; messages without `token`
  /// are refused. The device outlives the server.
  Server(Device& device, int server, int workers, std::uint64_t token);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Handles a message of `worker` and returns the replies that it causes, to this worker and to
  /// others that waited. A wrong message changes nothing; its reply is an error that names the
  /// cause.
  Replies handle(int worker, Message message);

  std::uint64_t token() const { return token_; }
  /// The spans of this server in a trace; none of them counts as an activity of a worker.
  Timeline& timeline() { return timeline_; }
  /// Throws Error if handle() would refuse the message whatever the values of its frames: its
  /// sender does not belong to the run, or its frames do not match its header.
  void check_frames(int worker, const Header& header, std::span<const FrameShape> frames) const;

  const WorkerSeats& seats() const { return seats_; }
  /// The first worker that failed, and its reason; empty while none has failed.
  const std::string& failure() const { return failure_; }

  /// The step for which the server still waits for some worker; for error messages.
  virtual std::int64_t steps() const { return 0; }
  /// Handles the end of a worker's process before the worker was done. Returns the replies that
  /// this causes. Throws Error that names the worker if the run cannot go on without it.
  virtual Replies lose(int worker);
  /// From now on new processes may take the seats of workers that are lost (Kind::join).
  void let_seats_be_taken_again() { seats_.let_be_taken_again(); }
  /// The workers that wait until the others have finished training. They need a heartbeat of the
  /// server.
  virtual std::vector<int> patient() const { return {}; }
  /// The time (of the device's clock) at which wake() has something to do, if no message comes
  /// before; none: it has nothing to do.
  virtual std::optional<double> due() const { return {}; }
  /// Does what is due, and returns the replies that this causes.
  virtual Replies wake() { return {}; }
  /// Writes this server's figures into the record of its rank. May block until its device has
  /// finished.
  virtual void report(RankRecord& record) { static_cast<void>(record); }

  /// The meetings of workers that do not wait for each other.
  Meetings& meetings() { return meetings_; }
  const Meetings& meetings() const { return meetings_; }
  /// Whether all workers stand at a meeting, or wait for one that is cancelled.
  bool has_meeting() const;
  /// The replies to these workers.
  Replies end_meeting();
  /// The run was told to stop: it ends with the first meeting that is possible.
  void end_soon() { meetings_.end_after(begun()); }

 protected:
  /// The worker stands at a meeting, and pushes nothing before it has ended; go_on() is called
  /// then. Returns the replies to others that this causes.
  virtual Replies rest(int worker) { return static_cast<void>(worker), Replies(); }
  virtual void go_on() {}
  /// The most steps of the run that a worker may have begun.
  virtual std::int64_t begun() const { return meetings_.begun(); }
  /// The first push that a new process of a worker, which is lost, can make, and holds back what
  /// would pass it; then the process begins with push `first`, which is not smaller. The defaults
  /// throw Error.
  struct Joining {
    std::int64_t first = 0;
    bool over = false;  // no worker of the run pushes any more
  };
  virtual Joining expect(int worker);
  virtual Replies begin_at(int worker, std::int64_t first);
  /// Answers a message of a kind that this class does not know. Throws Error to refuse a message,
  /// which must then have changed nothing.
  virtual Replies answer(int worker, Message message);
  /// Throws Error if answer() would refuse the message whatever the values of its frames.
  virtual void check_request(const Header& header, std::span<const FrameShape> frames) const {
    static_cast<void>(header), static_cast<void>(frames);
  }

  Device& device() const { return device_; }
  /// Adds a span to the trace, if there is one; `name()` is its name.
  template <class Name>
  [[nodiscard]] Timeline::Scope traced(const Name& name, SpanNote note = {}) {
    note.track = track;
    return timeline_.traced(track, name, std::move(note));
  }
  int server() const { return server_; }
  int workers() const { return seats_.count(); }
  /// Stops waiting for this worker in sums. Returns the replies of a sum that waited for this
  /// worker alone.
  Replies count_as_lost(int worker);

 private:
  Replies meet(int worker, const Header& header);
  Replies join(int worker, const Header& header);
  void check_sender(int worker, const Header& header) const;
  void note_away();

  Device& device_;
  Timeline timeline_;
  int server_;
  std::uint64_t token_;
  WorkerSeats seats_;
  std::string failure_;
  Meetings meetings_;
  WorkerSums sums_;
};

}  // namespace ringside::ps
