// What workers and servers say to each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/tensor.h"

namespace ringside::ps {

/// A request has the same kind as its reply; `error` is a reply to anything.
enum class Kind : std::uint8_t {
  push,       // gradient of a range; no reply
  push_pull,  // gradient of a range -> once all workers have pushed, its values (none before the
              // last push of a step)
  pull,       // -> values of a range, after `step` updates
  measure,    // of round `micro_batch` of a step, loss scale in scalar, the round before's totals
              // (fp64; none in round 0) -> this server's part of the round's sums
  settle,     // loss scale in scalar, the last totals; no reply
  sum,        // fp64 frame, or none -> its sum over workers, in rank order; `step` counts them
  inputs,     // samples [begin, begin + count) of a step -> its inputs
  loss,       // logits, gradient scale in scalar -> loss in scalar, gradient of the logits
  alive,      // nothing to say; no reply
  done,       // the worker's last word; no reply
  failed,     // the worker's last word, with its reason in text; no reply
  error       // reply: why, in text
};
inline constexpr std::size_t kinds = 12;

constexpr std::string_view name_of(Kind kind) {
  constexpr std::string_view names[kinds] = {"push",   "push_pull", "pull",   "measure",
                                             "settle", "sum",       "inputs", "loss",
                                             "alive",  "done",      "failed", "error"};
  return names[static_cast<std::size_t>(kind)];
}

struct Header {
  /// Drawn anew for every run: who does not know it is not of the run.
  std::uint64_t token = 0;
  Kind kind = Kind::alive;
  bool reply = false;
  std::int32_t worker = 0;  // who asked
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
  /// Elements of the model's flat parameters, or samples.
  std::int64_t begin = 0, count = 0;
  double scalar = 0;
  std::string text{};

  bool operator==(const Header&) const = default;
};

/// Frames travel raw, after the header; whoever holds a message keeps their memory alive.
struct Message {
  Header header;
  std::vector<Tensor> frames;
};

/// What a reply to `request` begins with.
inline Header reply_to(const Header& request) {
  Header header = request;
  header.reply = true;
  header.text.clear();
  return header;
}

}  // namespace ringside::ps
