#include "ps/protocol/server.h"

#include <algorithm>
#include <span>

#include "core/base/error.h"

namespace ringside::ps {

Server::Server(Device& device, int server, int workers, std::uint64_t token)
    : device_(device),
      timeline_(device),
      server_(server),
      token_(token),
      seats_(workers),
      meetings_(workers),
      sums_(device, workers, token) {}

Replies Server::handle(int worker, Message message) {
  const Header header = message.header;
  try {
    check_sender(worker, header);
    switch (header.kind) {
      case Kind::sum:
        return sums_.take(worker, header, message.frames);
      case Kind::go:
        return one_reply(worker, {meetings_.go(header), {}});
      case Kind::meet:
        return meet(worker, header);
      case Kind::join:
        return join(worker, header);
      case Kind::alive:
        return {};
      case Kind::done:
        seats_.finish(worker);
        if (seats_.are_taken_again()) note_away();
        return {};
      case Kind::failed:
        if (failure_.empty()) failure_ = fmt::format("worker {} gave up: {}", worker, header.text);
        return {};
      default:
        return answer(worker, std::move(message));
    }
  } catch (const Error& error) {
    Message refusal{reply_to(header), {}};
    refusal.header.kind = Kind::error;
    refusal.header.text =
        fmt::format("{} of worker {} refused: {}", name_of(header.kind), worker, error.what());
    return one_reply(worker, std::move(refusal));
  }
}

Replies Server::lose(int worker) {
  throw Error("worker {} has ended before its work was done", worker);
}

Server::Joining Server::expect(int) { throw Error("no process can join this server's workers"); }

Replies Server::begin_at(int, std::int64_t) {
  throw Error("no process can join this server's workers");
}

bool Server::has_meeting() const {
  if (meetings_.waiting().empty()) return false;
  if (meetings_.are_left_out()) return true;
  for (int worker = 0; worker < workers(); ++worker)
    if (!seats_.is_done(worker) && !meetings_.has_come(worker)) return false;
  return true;
}

Replies Server::end_meeting() {
  go_on();
  Replies replies;
  for (Header& header : meetings_.end()) {
    const int worker = header.worker;
    replies.push_back({worker, {std::move(header), {}}});
  }
  return replies;
}

Replies Server::meet(int worker, const Header& header) {
  if (meetings_.come(worker, header)) return rest(worker);
  return one_reply(worker, {reply_to(header), {}});
}

Replies Server::join(int worker, const Header& header) {
  if (!seats_.is_lost(worker) && !seats_.joins(worker))
    throw Error("the seat of the worker is not empty");
  Message reply{reply_to(header), {}};
  Replies replies;
  if (seats_.is_lost(worker)) {
    const Joining joining = expect(worker);
    reply.header.version = joining.first;
    reply.header.scalar = joining.over ? 1 : 0;
    seats_.join(worker);
    note_away();
  } else {
    replies = begin_at(worker, header.step);
    seats_.begin(worker);
  }
  replies.push_back({worker, std::move(reply)});
  return replies;
}

/// At the end of a run workers are done after its last meeting.
void Server::note_away() { meetings_.set_away(seats_.done()); }

Replies Server::answer(int, Message) {
  throw Error("this server does not answer messages of this kind");
}

void Server::check_sender(int worker, const Header& header) const {
  if (header.token != token_) throw Error("the message carries the token of another run");
  if (worker < 0 || worker >= workers())
    throw Error("the sender is no worker of this run; workers are 0 to {}", workers() - 1);
  if (header.worker != worker) throw Error("the message was signed by worker {}", header.worker);
  if (header.reply) throw Error("the message is a reply, not a request");
  const bool may_join = seats_.is_lost(worker) && seats_.are_taken_again();
  if (seats_.is_done(worker) && !(may_join && header.kind == Kind::join))
    throw Error("the worker has already said that it is done, and may send nothing more");
}

void Server::check_frames(int worker, const Header& header,
                          std::span<const FrameShape> frames) const {
  check_sender(worker, header);
  if (frames.size() > 1 && header.kind != Kind::own)
    throw Error("no message to a server has {} frames", frames.size());
  check_request(header, frames);
}

Replies Server::count_as_lost(int worker) {
  seats_.lose(worker);
  meetings_.leave(worker);
  if (seats_.are_taken_again())
    note_away();
  else
    meetings_.cancel();
  return sums_.leave(worker);
}

}  // namespace ringside::ps
