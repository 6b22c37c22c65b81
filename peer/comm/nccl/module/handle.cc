// Calls that NCCL leaves in progress, and the begin and the end of its communicators.
#include "peer/comm/nccl/module/handle.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

std::string id_key(const NcclRank& self) { return "nccl/" + self.name; }
std::string arrival_key(const NcclRank& self, int rank) {
  return fmt::format("nccl/{}/{}", self.name, rank);
}

std::string to_hex(const ncclUniqueId& id) {
  std::string out;
  for (const char byte : id.internal)
    out += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return out;
}

ncclUniqueId from_hex(const std::string& text) {
  ncclUniqueId id{};
  if (text.size() != 2 * sizeof id.internal) throw Error("'{}' is not an id of NCCL", text);
  for (std::size_t i = 0; i < sizeof id.internal; ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

std::optional<std::string> look_up(Store& store, const std::string& key, double timeout_s) {
  try {
    return store.get(key, timeout_s);
  } catch (const Error&) {
    return {};
  }
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

/// The last error text of the library, in one line; it may be about another communicator.
std::string last_word(ncclComm_t comm) {
  const char* text = ncclGetLastError(comm);
  std::string line = text ? text : "";
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line.empty() ? "" : " (" + line + ")";
}

constexpr const char* connecting = "the beginning of the group";

}  // namespace

bool poll(const Clock& clock, double timeout_s, const std::function<bool()>& done) {
  constexpr int yields = 200;
  constexpr std::chrono::microseconds nap{50};
  const double end = clock.now() + timeout_s;
  for (int asked = 0; !done(); ++asked) {
    if (clock.now() > end) return false;
    if (asked < yields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(nap);
  }
  return true;
}

Handle::Handle(Store& store, const NcclRank& self) : store_(store), self_(self) {
  arrive(store_, self_);
}

bool Handle::connected() {
  if (connected_) return true;
  if (comm_) return connected_ = is_through(ncclInProgress, connecting);
  const auto id = find_id(store_, self_);
  if (!id) return false;
  ncclConfig_t config = non_blocking();
  const ncclResult_t result = ncclCommInitRankConfig(&comm_, self_.size, *id, self_.rank, &config);
  return connected_ = is_through(result, connecting);
}

void Handle::connect(const Clock& clock, double timeout_s) {
  if (poll(clock, timeout_s, [&] { return connected(); })) return;
  abort();
  const std::string missing = who_is_missing(store_, self_);
  if (!missing.empty())
    throw Error("{}: {} did not join the group within {} s", self_.place, missing, timeout_s);
  throw Error(
      "{}: NCCL did not connect the ranks within {} s; NCCL_DEBUG=INFO shows why, "
      "NCCL_SOCKET_IFNAME names the network, and train.timeout_s gives more time",
      self_.place, timeout_s);
}

Handle Handle::split(int colour, int key, const std::string& group, const Clock& clock,
                     double timeout_s) {
  const std::string what = fmt::format("split into {}", group);
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;  // NCCL writes it while the call is in progress
  try {
    bring_through(ncclCommSplit(comm_, colour, key, &comm, &config), what, clock, timeout_s);
  } catch (const Error&) {
    abort();  // ends NCCL's thread, which may be about to write `comm`
    throw;
  }
  Handle child(store_, self_, comm);
  child.bring_through(ncclInProgress, what, clock, timeout_s);
  Group self{group};
  child.bring_through(ncclCommUserRank(comm, &self.rank), what, clock, timeout_s);
  child.bring_through(ncclCommCount(comm, &self.size), what, clock, timeout_s);
  child.self_ = nccl_rank(self);
  return child;
}

bool Handle::is_through(ncclResult_t result, const std::string& what) {
  if (result == ncclInProgress) {
    ncclResult_t state = ncclSuccess;
    result = ncclCommGetAsyncError(comm_, &state);
    if (result == ncclSuccess) result = state;
    if (result == ncclInProgress) return false;
  }
  if (result == ncclSuccess) return true;
  throw Error("{}: {}: NCCL: {}{}; see the errors of the other ranks; NCCL_DEBUG=WARN shows more",
              self_.place, what, ncclGetErrorString(result), last_word(comm_));
}

void Handle::abort() noexcept {
  if (comm_) ncclCommAbort(std::exchange(comm_, nullptr));
}

bool Handle::finish(const Clock& clock, double timeout_s) noexcept {
  try {
    bring_through(ncclCommFinalize(comm_), "the end of the group", clock, timeout_s);
    ncclCommDestroy(std::exchange(comm_, nullptr));
    return true;
  } catch (const Error&) {
    abort();  // the other ranks did not come; their own errors say why
    return false;
  }
}

void Handle::bring_through(ncclResult_t result, const std::string& what, const Clock& clock,
                           double timeout_s) {
  const auto done = [&] { return is_through(std::exchange(result, ncclInProgress), what); };
  if (!poll(clock, timeout_s, done))
    throw Error("{}: {}: not all ranks took part within {} s; raise train.timeout_s", self_.place,
                what, timeout_s);
}

NcclRank nccl_rank(const Group& group) {
  return {group, fmt::format("{}: rank {} of {}", group.name, group.rank, group.size)};
}

void arrive(Store& store, const NcclRank& self) {
  store.set(arrival_key(self, self.rank), "here");
  if (self.rank != 0) return;
  ncclUniqueId id{};
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess)
    throw Error("{}: ncclGetUniqueId: {}; set NCCL_SOCKET_IFNAME to the network interface to use",
                self.place, ncclGetErrorString(result));
  store.set(id_key(self), to_hex(id));
}

std::optional<ncclUniqueId> find_id(Store& store, const NcclRank& self) {
  const auto text = look_up(store, id_key(self), 0);
  if (!text) return {};
  return from_hex(*text);
}

std::string who_is_missing(Store& store, const NcclRank& self) {
  using SteadyClock = std::chrono::steady_clock;
  std::vector<int> missing;
  for (int r = 0; r < self.size; ++r)
    if (!look_up(store, arrival_key(self, r), 0)) missing.push_back(r);
  // The store may be in another process. The loop above has asked it for all keys without waiting;
  // its answers now get `grace` seconds in all.
  constexpr std::chrono::duration<double> grace{0.2};
  const auto end = SteadyClock::now() + grace;
  std::erase_if(missing, [&](int r) {
    const std::chrono::duration<double> left = end - SteadyClock::now();
    return look_up(store, arrival_key(self, r), std::max(0.0, left.count())).has_value();
  });
  if (missing.empty()) return "";
  return fmt::format("rank{} {}", missing.size() > 1 ? "s" : "", fmt::join(missing, ", "));
}

}  // namespace ringside::peer
