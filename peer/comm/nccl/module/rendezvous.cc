// The ranks of a group find each other through the store.
#include "peer/comm/nccl/module/rendezvous.h"

#include <algorithm>
#include <chrono>

#include <vector>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

std::string id_key(const GroupName& group) { return "nccl/" + group.name; }
std::string arrival_key(const GroupName& group, int rank) {
  return fmt::format("nccl/{}/{}", group.name, rank);
}

std::string to_hex(const ncclUniqueId& id) {
  std::string out;
  for (const char byte : id.internal)
    out += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return out;
}

ncclUniqueId from_hex(const std::string& text) {
  ncclUniqueId id{};
  if (text.size() != 2 * sizeof id.internal) throw Error("no id of NCCL: '{}'", text);
  for (std::size_t i = 0; i < sizeof id.internal; ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

}  // namespace

ncclUniqueId meet(Store& store, const GroupName& group, double timeout_s) {
  store.set(arrival_key(group, group.rank), "here");
  if (group.rank == 0) {
    ncclUniqueId id{};
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess)
      throw Error("{}: ncclGetUniqueId: {}: {}; NCCL_SOCKET_IFNAME names the network to use",
                  group.place(), ncclGetErrorString(result), ncclGetLastError(nullptr));
    store.set(id_key(group), to_hex(id));
    return id;
  }
  std::string id;
  try {
    id = store.get(id_key(group), timeout_s);
  } catch (const Error& error) {
    throw Error("{}: rank 0 did not open the group: {}", group.place(), error.what());
  }
  return from_hex(id);
}

std::string who_is_missing(Store& store, const GroupName& group) {
  using Clock = std::chrono::steady_clock;
  const auto has_come = [&](int rank, double timeout_s) {
    try {
      store.get(arrival_key(group, rank), timeout_s);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  // Everything is asked for first: the answers of a store elsewhere come together.
  constexpr std::chrono::duration<double> grace{0.2};
  std::vector<int> missing;
  for (int r = 0; r < group.size; ++r)
    if (!has_come(r, 0)) missing.push_back(r);
  const auto end = Clock::now() + grace;
  std::erase_if(missing, [&](int r) {
    const std::chrono::duration<double> left = end - Clock::now();
    return has_come(r, std::max(0.0, left.count()));
  });
  if (missing.empty()) return "";
  return fmt::format("rank{} {}", missing.size() > 1 ? "s" : "", fmt::join(missing, ", "));
}

}  // namespace ringside::peer
