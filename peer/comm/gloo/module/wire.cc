#include "peer/comm/gloo/module/wire.h"

#include <gloo/allreduce.h>
#include <gloo/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <list>
#include <random>
#include <sstream>
#include <vector>

#include "core/base/batch_scheduling.h"
#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "peer/comm/collective.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::hours forever{100};
constexpr milliseconds look_each{100};
/// After this many looks without a wait, the watching thread sleeps until the next wait.
constexpr int idle_looks = 10;

/// Addresses have bytes of any value, which not every store keeps.
std::string as_hex(const std::vector<char>& bytes) {
  std::string out;
  for (const char byte : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return out;
}
std::vector<char> from_hex(const std::string& text) {
  std::vector<char> out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return out;
}

/// The address with which the rank at `index` is to connect; `list` has one for every rank, and
/// those of the second way after all those of the first.
std::string word_of(const std::string& list, std::size_t index) {
  std::istringstream words(list);
  std::string word;
  for (std::size_t i = 0; i <= index; ++i) words >> word;
  return word;
}

std::uint64_t slot_of(Wire::Lane lane, std::size_t bytes) {
  return static_cast<std::uint64_t>(lane) | static_cast<std::uint64_t>(bytes) << 8;
}

std::string in_one_line(const std::exception& cause) {
  std::string what = cause.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  return what;
}

Error broken(int peer, const std::exception& cause) {
  return Error("Gloo: the connection to rank {} broke: {}", peer, in_one_line(cause));
}

/// Each end of a connection listens on a port of its own, and accepts the first process that
/// connects.
Error not_made(int peer, const std::string& cause) {
  return Error(
      "Gloo: there is no connection to rank {}: {}; if rank {} has not ended, another process has "
      "connected in its place: let jobs with Gloo run on a network that you trust",
      peer, cause, peer);
}

/// A random word that cannot be guessed.
std::string draw_word() {
  std::random_device bits;
  std::string out;
  for (int i = 0; i < 4; ++i) out += fmt::format("{:08x}", bits());
  return out;
}

/// The slot of proofs; no transfer has it, because no lane has this number.
constexpr std::uint64_t slot_of_proof = 0xFF;

}  // namespace

class GlooWire::GlooTransfer : public Transfer {
 public:
  GlooTransfer(GlooWire& wire, int peer, bool sends, Lane lane, void* memory, std::size_t bytes)
      : wire_(wire),
        peer_(peer),
        sends_(sends),
        buffer_((sends ? wire.way(wire.rank_, peer) : wire.way(peer, wire.rank_))
                    .createUnboundBuffer(memory, bytes)) {
    try {
      if (sends)
        buffer_->send(peer, slot_of(lane, bytes));
      else
        buffer_->recv(peer, slot_of(lane, bytes));
    } catch (const std::exception& cause) {
      throw broken(peer, cause);
    }
  }

  bool wait(const std::function<bool()>& give_up) override {
    try {
      return wire_.wait(
          {give_up, [this] { sends_ ? buffer_->abortWaitSend() : buffer_->abortWaitRecv(); }},
          [this] {
            return sends_ ? buffer_->waitSend(nullptr, forever)
                          : buffer_->waitRecv(nullptr, forever);
          });
    } catch (const std::exception& cause) {
      throw broken(peer_, cause);
    }
  }

 private:
  GlooWire& wire_;
  int peer_;
  bool sends_;
  std::unique_ptr<Buffer> buffer_;
};

/// The connections that the wire has made.
class GlooWire::Connected : public gloo::Context {
 public:
  Connected(const Group& group, std::shared_ptr<gloo::transport::Device> device,
            std::shared_ptr<gloo::transport::Context> connections)
      : gloo::Context(group.rank, group.size) {
    device_ = std::move(device);
    transportContext_ = std::move(connections);
  }
};

/// Gloo's collectives block: this one begins when it is waited for, and ends early with all
/// connections.
class GlooWire::GlooSum : public Transfer {
 public:
  GlooSum(GlooWire& wire, DType dtype, std::span<std::byte> array)
      : wire_(wire), dtype_(dtype), array_(array) {}

  bool wait(const std::function<bool()>& give_up) override {
    bool given_up = false;
    try {
      wire_.wait({give_up,
                  [&] {
                    given_up = true;
                    wire_.cut();
                  }},
                 [this] {
                   sum();
                   return true;
                 });
      return !given_up;
    } catch (const std::exception& cause) {
      if (given_up) return false;
      throw Error("Gloo: an all-reduce broke: {}", in_one_line(cause));
    }
  }

 private:
  void sum() {
    gloo::AllreduceOptions options(wire_.connected_);
    const std::size_t count = array_.size() / size_of(dtype_);
    if (dtype_ == DType::f32)
      options.setOutput(reinterpret_cast<float*>(array_.data()), count);
    else
      options.setOutput(reinterpret_cast<std::uint16_t*>(array_.data()), count);
    options.setReduceFunction([this](void* out, const void* a, const void* b, std::size_t n) {
      const std::byte* const sources[] = {static_cast<const std::byte*>(a),
                                          static_cast<const std::byte*>(b)};
      std::byte* const targets[] = {static_cast<std::byte*>(out)};
      sum_in_order(dtype_, sources, targets, n);
    });
    options.setTimeout(forever);
    // Gloo ends the process where ranks that disagree about sizes meet.
    options.setTag(static_cast<std::uint32_t>(count));
    gloo::allreduce(options);
  }

  GlooWire& wire_;
  DType dtype_;
  std::span<std::byte> array_;
};

GlooWire::GlooWire(const GlooRequest& request) : rank_(request.group.rank) {
  const BatchScheduling of_threads;
  try {
    connect(request);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& cause) {
    throw Error("{}: Gloo cannot connect rank {} at address '{}': {}", request.group.name,
                request.group.rank, request.address, cause.what());
  }
  watcher_ = std::thread([this] { watch(); });
}

GlooWire::~GlooWire() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  watcher_.join();
  connected_.reset();
  ways_ = {};
}

void GlooWire::connect(const GlooRequest& request) {
  const auto& [store, group, address, timeout_s] = request;
  const auto key = [&](int rank) { return fmt::format("gloo/{}/{}", request.group.name, rank); };
  device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
  std::string own;
  for (auto& way : ways_) {
    way = device_->createContext(group.rank, group.size);
    // A pair waits five times as long for its connection.
    way->setTimeout(std::max(
        milliseconds(1), milliseconds(static_cast<std::int64_t>(std::min(timeout_s, 1e6) * 200))));
    for (int r = 0; r < group.size; ++r) {
      if (r != group.rank) {
        auto& pair = way->createPair(r);
        pair->setLocalRank(0);
        own += as_hex(pair->address().bytes());
      } else {
        own += '-';
      }
      own += ' ';
    }
  }
  const std::string own_word = draw_word();
  store.set(key(group.rank), own + own_word);
  const double end = seconds_now() + timeout_s;
  std::vector<std::string> addresses(static_cast<std::size_t>(group.size));
  std::vector<int> missing;
  for (int r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    try {
      addresses[static_cast<std::size_t>(r)] =
          store.get(key(r), std::max(0.01, end - seconds_now()));
    } catch (const Error&) {
      missing.push_back(r);
    }
  }
  if (!missing.empty())
    throw Error("{}", did_not_join(group.name,
                                   list_ranks(group.size,
                                              [&](int r) {
                                                return std::count(missing.begin(), missing.end(),
                                                                  r) > 0;
                                              }),
                                   timeout_s));
  for (std::size_t way = 0; way < ways_.size(); ++way)
    for (int r = 0; r < group.size; ++r) {
      if (r == group.rank) continue;
      const auto index = static_cast<std::size_t>(group.rank) + way * addresses.size();
      try {
        ways_[way]->getPair(r)->connect(
            from_hex(word_of(addresses[static_cast<std::size_t>(r)], index)));
      } catch (const std::exception& cause) {
        throw not_made(r, in_one_line(cause));
      }
    }
  std::vector<std::string> words(addresses.size());
  for (std::size_t r = 0; r < words.size(); ++r)
    if (!addresses[r].empty()) words[r] = word_of(addresses[r], ways_.size() * addresses.size());
  prove(own_word, words, std::max(0.01, end - seconds_now()));
  connected_ = std::make_shared<Connected>(group, device_, ways_.front());
}

void GlooWire::prove(const std::string& own, const std::vector<std::string>& words,
                     double timeout_s) {
  struct Proof {
    int peer;
    std::string shown, expected;
    std::unique_ptr<Buffer> shows{}, expects{};
  };
  std::list<Proof> proofs;
  const auto at_peer = [](const Proof& proof, const auto& act) {
    try {
      act();
    } catch (const std::exception& cause) {
      throw not_made(proof.peer, in_one_line(cause));
    }
  };
  for (const auto& way : ways_)
    for (std::size_t r = 0; r < words.size(); ++r) {
      if (words[r].empty()) continue;
      Proof& proof =
          proofs.emplace_back(Proof{static_cast<int>(r), words[r], std::string(own.size(), ' ')});
      at_peer(proof, [&] {
        proof.expects = way->createUnboundBuffer(proof.expected.data(), proof.expected.size());
        proof.expects->recv(proof.peer, slot_of_proof);
        proof.shows = way->createUnboundBuffer(proof.shown.data(), proof.shown.size());
        proof.shows->send(proof.peer, slot_of_proof);
      });
    }
  for (const double end = seconds_now() + timeout_s; Proof & proof : proofs) {
    const auto left = [&] {
      return milliseconds(static_cast<std::int64_t>(1e3 * std::max(0.01, end - seconds_now())));
    };
    at_peer(proof, [&] {
      proof.expects->waitRecv(nullptr, left());
      proof.shows->waitSend(nullptr, left());
    });
    if (proof.expected != own) throw not_made(proof.peer, "what came is not its word");
  }
}

TransferPtr GlooWire::send(int peer, Lane lane, std::span<const std::byte> bytes) {
  // Gloo's buffers are for both directions; it only reads what is sent.
  return std::make_unique<GlooTransfer>(*this, peer, true, lane,
                                        const_cast<std::byte*>(bytes.data()), bytes.size());
}

TransferPtr GlooWire::receive(int peer, Lane lane, std::span<std::byte> bytes) {
  return std::make_unique<GlooTransfer>(*this, peer, false, lane, bytes.data(), bytes.size());
}

TransferPtr GlooWire::all_reduce(DType dtype, std::span<std::byte> array) {
  return std::make_unique<GlooSum>(*this, dtype, array);
}

void GlooWire::cut() {
  std::byte none{};
  for (const auto& way : ways_) {
    const auto buffer = way->createUnboundBuffer(&none, sizeof none);
    try {
      buffer->waitRecv(nullptr, milliseconds(1));
    } catch (const std::exception&) {  // the timeout is the purpose
    }
  }
}

bool GlooWire::wait(Watched watched, const std::function<bool()>& wait) {
  std::list<Watched>::iterator here;
  {
    const std::lock_guard lock(mutex_);
    here = watched_.insert(watched_.end(), std::move(watched));
    if (asleep_) changed_.notify_all();
  }
  const auto end = [&] {
    const std::lock_guard lock(mutex_);
    watched_.erase(here);
  };
  bool over = false;
  try {
    over = wait();
  } catch (...) {
    end();
    throw;
  }
  end();
  return over;
}

void GlooWire::watch() {
  std::unique_lock lock(mutex_);
  for (int idle = 0; !ending_;) {
    asleep_ = idle >= idle_looks;
    if (asleep_) changed_.wait(lock, [&] { return ending_ || !watched_.empty(); });
    asleep_ = false;
    changed_.wait_for(lock, look_each, [&] { return ending_; });
    idle = watched_.empty() ? idle + 1 : 0;
    for (const Watched& one : watched_)
      if (one.give_up()) one.abort();
  }
}

}  // namespace ringside::peer

extern "C" void ringside_module(ringside::ModuleExports* exports) {
  using namespace ringside::peer;
  static const GlooModule functions{
      .make = [](const GlooRequest& request) -> std::unique_ptr<Wire> {
        return std::make_unique<GlooWire>(request);
      }};
  exports->functions = &functions;
  exports->stamp = ringside::module_stamp;
}
