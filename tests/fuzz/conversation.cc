#include "tests/fuzz/conversation.h"

#include <algorithm>

#include "core/base/error.h"
#include "ps/protocol/archive.h"

namespace ringside::fuzz {
namespace {

using ps::Header;
using ps::Kind;
using ps::Message;

constexpr int most_messages = 256;

/// Whether a channel would take the message, by its header and the shapes of its frames.
bool has_frames_that_fit(const ps::Server& server, int worker, const Message& message) {
  std::vector<ps::FrameShape> frames;
  for (const Tensor& frame : message.frames) frames.push_back({frame.dtype(), frame.shape()});
  try {
    server.check_frames(worker, message.header, frames);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The most memory that a server of a tiny model may hold, whatever messages it gets.
constexpr std::int64_t most_bytes = 16 << 20;

}  // namespace

Conversation::Conversation(Input& input, Device& device, const std::vector<ps::Chunk>& chunks,
                           const ps::ServerConfig& config)
    : input_(input),
      device_(device),
      chunks_(chunks),
      config_(config),
      rounds_(static_cast<std::size_t>(config.workers)),
      settled_(static_cast<std::size_t>(config.workers)) {}

Tensor Conversation::frame(DType dtype, std::int64_t count) {
  Tensor out = device_.tensor({count}, MemoryKind::communication, dtype);
  const auto pattern = input_.raw<std::uint16_t>();
  std::vector<std::byte> bytes(out.bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((pattern >> (8 * (i % 2))) ^ i);
  device_.write(out, bytes);
  return out;
}

Message Conversation::next(int worker) {
  const auto w = static_cast<std::size_t>(worker % config_.workers);
  Message message;
  Header& h = message.header;
  h.token = input_.below(32) == 0 ? input_.raw<std::uint64_t>() : config_.token;
  h.kind = static_cast<Kind>(input_.below(ps::kinds));
  h.reply = input_.below(32) == 0;
  h.worker = input_.below(32) == 0 ? input_.raw<std::int32_t>() : worker;
  const ps::Chunk& chunk = chunks_[input_.below(chunks_.size())];
  h.begin = input_.number(chunk.begin);
  h.count = input_.number(chunk.count);
  h.scalar = input_.real(1);
  const std::int64_t pushes = pushed_[{worker, chunk.begin}];
  std::int64_t step = pushes / config_.pushes, part = pushes % config_.pushes;
  DType dtype = config_.dtype;
  std::int64_t count = chunk.count;
  bool with_frame = true;
  switch (h.kind) {
    case Kind::push:
    case Kind::push_pull:
      break;
    case Kind::measure:
    case Kind::settle:
      step = settled_[w];
      part = rounds_[w] - (h.kind == Kind::settle ? 1 : 0);
      with_frame = part > 0 || h.kind == Kind::settle;
      break;
    case Kind::sum:
      step = sums_;
      dtype = DType::f64;
      count = 3;
      break;
    default:
      with_frame = false;
  }
  h.step = input_.number(step);
  h.micro_batch = input_.number(part);
  const bool about_sums = h.kind == Kind::measure || h.kind == Kind::settle;
  if (about_sums && with_frame && totals_ && input_.below(8) != 0)
    message.frames.push_back(totals_);
  else if (input_.below(8) != 0 && with_frame)
    message.frames.push_back(frame(dtype, count));
  else if (input_.below(4) == 0)
    for (std::size_t n = input_.below(4); n > 0; --n)
      message.frames.push_back(
          frame(static_cast<DType>(input_.below(6)), static_cast<std::int64_t>(input_.below(96))));
  shape(message, worker);
  return message;
}

void Conversation::check(const ps::Server& server, int worker, const Header& asked,
                         std::int64_t steps, const ps::Replies& replies) {
  bool refused = false;
  for (const ps::Reply& reply : replies) {
    const Header& h = reply.message.header;
    require(h.reply, "what a server says is a reply");
    if (h.kind == Kind::error) {
      refused = true;
      require(reply.worker == worker && replies.size() == 1, "an error is told to its cause alone");
      require(!h.text.empty() && h.text.find('\n') == std::string::npos, "an error is one line");
      continue;
    }
    require(reply.worker >= 0 && reply.worker < config_.workers, "replies are for workers");
    if (h.kind == Kind::measure) totals_ = reply.message.frames.at(0);
  }
  if (refused) {
    require(server.steps() == steps, "a refused message changes nothing");
    return;
  }
  require(asked.token == config_.token && asked.worker == worker && worker < config_.workers,
          "a message of nobody is refused");
  const auto w = static_cast<std::size_t>(worker);
  if (asked.kind == Kind::push || asked.kind == Kind::push_pull) {
    require(applied_.insert({worker, asked.begin, asked.step, asked.micro_batch}).second,
            "a push is taken once");
    const std::int64_t number = pushed_[{worker, asked.begin}]++;
    const bool may_skip =
        config_.rules.backup_workers > 0 || config_.rules.consistency == ps::Consistency::easgd;
    require(may_skip || number == asked.step * config_.pushes + asked.micro_batch,
            "pushes come in order");
  }
  if (asked.kind == Kind::measure) ++rounds_[w];
  if (asked.kind == Kind::settle) {
    ++settled_[w];
    rounds_[w] = 0;
  }
  if (asked.kind == Kind::sum && !replies.empty()) ++sums_;
}

void Conversation::hold(ps::Server& server) {
  for (int i = 0; i < most_messages && !input_.empty(); ++i) {
    const auto choice =
        static_cast<int>(input_.below(static_cast<std::size_t>(8 * config_.workers + 1)));
    const bool nobody = choice == 8 * config_.workers;
    const int sender = nobody ? config_.workers : choice % config_.workers;
    Message message = next(sender);
    const Header asked = message.header;
    require(ps::decode(ps::encode(message)).header == asked || asked.scalar != asked.scalar,
            "a header is read as it was written");
    const std::int64_t steps = server.steps();
    const bool fits = has_frames_that_fit(server, sender, message);
    const bool may_fit = message.frames.size() > 1 || fits;
    const ps::Replies replies = server.handle(sender, std::move(message));
    check(server, sender, asked, steps, replies);
    require(may_fit || (replies.size() == 1 && replies[0].message.header.kind == Kind::error),
            "what a channel refuses, the server would refuse");
    require(device_.ledger().current().total() < most_bytes, "memory is bounded");
  }
}

}  // namespace ringside::fuzz
