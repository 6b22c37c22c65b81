// The messages between workers and servers.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"
#include "core/tensor/tensor.h"

namespace ringside::ps {

/// In the comments below, "request -> reply" lists the contents of the two. A reply has the kind of
/// its request; `error` may answer any request. Workers of easgd push values in place of a
/// gradient; the reply then has their difference from the server's
/// (ps/protocol/elastic_centre.h).
enum class Kind : std::uint8_t {
  hello,      // the worker's first message: its greeting, in text; no reply
  push,       // a gradient of a chunk, where pushes are merged its weight in scalar; no reply
  push_pull,  // gradient of a chunk -> once the consistency allows, the chunk's values (only after
              // the last push of a step; the replies to earlier pushes are empty)
  pull,       // -> values of a chunk, once a worker that has done `step` steps may read them
  peek,       // the same for an evaluation or the end of the run: no part of a step
  measure,  // number of a round of sums in `micro_batch`, loss scale in scalar, totals of the round
            // before (fp64; none in round 0) -> this server's part of the round's sums
  settle,   // number of the last round in `micro_batch`, loss scale in scalar, totals of that
            // round; no reply
  sum,      // fp64 frame, or none -> its sum over workers, in rank order; `step` is the number of
            // sums before this one
  inputs,   // samples [begin, begin + count) of a step -> their inputs
  loss,     // logits, gradient scale in scalar -> loss in scalar, gradient of the logits
  ticket,  // in scalar, the worker's speed (local steps a second), or 0 -> in scalar, the number of
           // steps up to its next push, or 0 if the run is over; 0 with a version: workers meet
           // after so many steps (go)
  merge,   // a server to a worker, which passes it on to the other servers: the workers of merge
           // `step`, in text (ps/protocol/merges.h); no reply
  finish,  // the worker pushes no more -> once no worker pushes any more
  go,     // the worker has done `step` steps -> in version, the number of steps after which workers
          // meet next, or 0 if they never do; in scalar, 1 if the run is over
          // (ps/protocol/meetings.h)
  meet,   // the worker stands at the meeting after `step` steps, and awaits no reply -> once all
          // do; in version, that number, or 0 if the meeting is cancelled
  join,   // a new process takes the seat of a worker that has gone: in a first message to every
          // server -> in version, the first push that this server can take, and in scalar 1 if the
          // run is over; in a second one, with the largest of these numbers in `step` -> empty
  own,    // a request that only a scheme's own server understands
  alive,  // a heartbeat; no reply
  done,   // the worker's last message; no reply
  failed,  // the worker's last message, with its reason in text; no reply
  error    // a reply: the reason, in text
};
inline constexpr std::string_view kind_names[] = {
    "hello", "push",   "push_pull", "pull",   "peek",  "measure", "settle",
    "sum",   "inputs", "loss",      "ticket", "merge", "finish",  "go",
    "meet",  "join",   "own",       "alive",  "done",  "failed",  "error"};
constexpr EnumNames names_of(Kind) { return kind_names; }
inline constexpr std::size_t kinds = std::size(kind_names);

struct Header {
  /// Drawn anew for every run. A message with another token does not belong to the run.
  std::uint64_t token = 0;
  Kind kind = Kind::alive;
  bool reply = false;
  std::int32_t worker = 0;  // the worker that asked
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
  /// A range of elements of the model's flat parameters, or of samples.
  std::int64_t begin = 0, count = 0;
  std::int64_t version = 0;  // in a reply with values: the number of updates that made them
  double scalar = 0;
  std::string text{};

  bool operator==(const Header&) const = default;
};

/// Frames follow the header as raw bytes. The holder of a message keeps their memory alive.
struct Message {
  Header header;
  std::vector<Tensor> frames;
};

inline std::int64_t frame_bytes(const Message& message) {
  std::int64_t bytes = 0;
  for (const Tensor& frame : message.frames) bytes += static_cast<std::int64_t>(frame.bytes());
  return bytes;
}

/// The header that a reply to `request` starts from.
inline Header reply_to(const Header& request) {
  Header header = request;
  header.reply = true;
  header.text.clear();
  return header;
}

}  // namespace ringside::ps
