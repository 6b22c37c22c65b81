// The ranks of a group find each other through the store.
#include "peer/comm/nccl/module/rendezvous.h"

#include <algorithm>
#include <chrono>
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

}  // namespace

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
