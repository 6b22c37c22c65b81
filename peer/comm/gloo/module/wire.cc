#include "peer/comm/gloo/module/wire.h"

#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "peer/comm/call.h"

namespace ringside::peer {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::hours forever{100};
constexpr milliseconds look_each{100};
/// So many looks without a wait, and the watching thread sleeps until the next one.
constexpr int idle_looks = 10;

/// Addresses are bytes of any value, and not every store keeps these.
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

/// The address with which the rank at `index` is to connect; `list` has one for every rank.
std::string word_of(const std::string& list, int index) {
  std::istringstream words(list);
  std::string word;
  for (int i = 0; i <= index; ++i) words >> word;
  return word;
}

std::uint64_t slot_of(Wire::Lane lane, std::size_t bytes) {
  return static_cast<std::uint64_t>(lane) | static_cast<std::uint64_t>(bytes) << 8;
}

Error broken(int peer, const std::exception& cause) {
  std::string what = cause.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  return Error("Gloo: the connection to rank {} broke: {}", peer, what);
}

}  // namespace

class GlooWire::GlooTransfer : public Transfer {
 public:
  GlooTransfer(GlooWire& wire, int peer, bool sends, Lane lane, void* memory, std::size_t bytes)
      : wire_(wire),
        peer_(peer),
        sends_(sends),
        buffer_(wire.context_->createUnboundBuffer(memory, bytes)) {
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
      return wire_.wait({*buffer_, sends_, give_up});
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

GlooWire::GlooWire(const GlooRequest& request) {
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
  context_.reset();
}

void GlooWire::connect(const GlooRequest& request) {
  const auto& [store, group, address, timeout_s] = request;
  const auto key = [&](int rank) { return fmt::format("gloo/{}/{}", request.group.name, rank); };
  device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
  context_ = device_->createContext(group.rank, group.size);
  // A pair waits five times as long for its connection.
  context_->setTimeout(std::max(
      milliseconds(1), milliseconds(static_cast<std::int64_t>(std::min(timeout_s, 1e6) * 200))));
  std::string own;
  for (int r = 0; r < group.size; ++r) {
    if (r != group.rank) {
      auto& pair = context_->createPair(r);
      pair->setLocalRank(0);
      own += as_hex(pair->address().bytes());
    } else {
      own += '-';
    }
    own += ' ';
  }
  store.set(key(group.rank), own);
  const double end = seconds_now() + timeout_s;
  std::vector<std::string> addresses(static_cast<std::size_t>(group.size));
  std::vector<int> missing;
  for (int r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    try {
      addresses[static_cast<std::size_t>(r)] =
          word_of(store.get(key(r), std::max(0.01, end - seconds_now())), group.rank);
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
  for (int r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    try {
      context_->getPair(r)->connect(from_hex(addresses[static_cast<std::size_t>(r)]));
    } catch (const std::exception& cause) {
      throw broken(r, cause);
    }
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

bool GlooWire::wait(Watched watched) {
  std::list<Watched>::iterator here;
  {
    const std::lock_guard lock(mutex_);
    here = watched_.insert(watched_.end(), watched);
    if (asleep_) changed_.notify_all();
  }
  const auto end = [&] {
    const std::lock_guard lock(mutex_);
    watched_.erase(here);
  };
  bool over = false;
  try {
    over = watched.sends ? watched.buffer.waitSend(nullptr, forever)
                         : watched.buffer.waitRecv(nullptr, forever);
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
    for (const Watched& one : watched_) {
      if (!one.give_up()) continue;
      if (one.sends)
        one.buffer.abortWaitSend();
      else
        one.buffer.abortWaitRecv();
    }
  }
}

}  // namespace ringside::peer

extern "C" void ringside_gloo_make(const ringside::peer::GlooRequest& request,
                                   std::unique_ptr<ringside::peer::Wire>& out) {
  out = std::make_unique<ringside::peer::GlooWire>(request);
}
