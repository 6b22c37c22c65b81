// What NCCL leaves in progress, and how its communicators begin and end.
#include "peer/comm/nccl/module/handle.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

/// The library's last word, in one line; it may be about another communicator.
std::string last_word(ncclComm_t comm) {
  const char* text = ncclGetLastError(comm);
  std::string line = text ? text : "";
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line.empty() ? "" : " (" + line + ")";
}

}  // namespace

Handle::Handle(const Clock& clock, Store& store, const GroupName& group, double timeout_s)
    : clock_(clock), group_(group) {
  const double end = clock_.now() + timeout_s;
  const ncclUniqueId id = meet(store, group_, timeout_s);
  ncclConfig_t config = non_blocking();
  const std::string what = "the beginning of the group";
  try {
    const ncclResult_t result =
        ncclCommInitRankConfig(&comm_, group_.size, id, group_.rank, &config);
    if (wait(result, end - clock_.now(), what, [] {})) return;
  } catch (const Error&) {
    abort();
    throw;
  }
  abort();
  const std::string missing = who_is_missing(store, group_);
  if (!missing.empty())
    throw Error("{}: {} did not join the group within {} s", group_.place(), missing, timeout_s);
  throw Error(
      "{}: NCCL did not connect the ranks within {} s; NCCL_DEBUG=INFO shows why, "
      "NCCL_SOCKET_IFNAME names the network, and train.timeout_s gives more time",
      group_.place(), timeout_s);
}

Handle Handle::split(int colour, int key, const std::string& name, double timeout_s) {
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;  // written when the parent is through
  const std::string what = fmt::format("split into {}", name);
  settle(ncclCommSplit(comm_, colour, key, &comm, &config), timeout_s, what);
  Handle child(clock_, {name, group_.rank, group_.size}, comm);
  child.settle(ncclInProgress, timeout_s, what);
  GroupName group{name};
  ncclCommUserRank(comm, &group.rank);
  ncclCommCount(comm, &group.size);
  child.group_ = group;
  return child;
}

bool Handle::settled(ncclResult_t result, const std::string& what) {
  if (result == ncclInProgress) return settled(what);
  if (result != ncclSuccess) fail(result, what);
  return true;
}

bool Handle::settled(const std::string& what) {
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = ncclCommGetAsyncError(comm_, &state);
  if (result == ncclSuccess) result = state;
  if (result != ncclSuccess && result != ncclInProgress) fail(result, what);
  return result == ncclSuccess;
}

void Handle::settle(ncclResult_t result, double timeout_s, const std::string& what,
                    const std::function<void()>& meanwhile) {
  if (wait(result, timeout_s, what, meanwhile)) return;
  throw Error(
      "{}: {} did not begin within {} s: another rank did not come to it; see what that one says, "
      "or raise train.timeout_s",
      group_.place(), what, timeout_s);
}

void Handle::abort() noexcept {
  if (comm_) ncclCommAbort(std::exchange(comm_, nullptr));
}

bool Handle::finish(double timeout_s) noexcept {
  try {
    settle(ncclCommFinalize(comm_), timeout_s, "the end of the group");
    ncclCommDestroy(std::exchange(comm_, nullptr));
    return true;
  } catch (const Error&) {
    abort();  // the others did not come to the end: they know why
    return false;
  }
}

void Handle::fail(ncclResult_t result, const std::string& what) const {
  constexpr const char* advice = "; the other ranks may know more, and so does NCCL_DEBUG=WARN";
  throw Error("{}: {}: NCCL: {}{}{}", group_.place(), what, ncclGetErrorString(result),
              last_word(comm_), advice);
}

bool Handle::wait(ncclResult_t result, double timeout_s, const std::string& what,
                  const std::function<void()>& meanwhile) {
  constexpr int yields = 200;
  constexpr std::chrono::microseconds nap{50};
  const double end = clock_.now() + timeout_s;
  for (int asked = 0; !settled(result, what); ++asked) {
    if (clock_.now() > end) return false;
    result = ncclInProgress;
    meanwhile();
    if (asked < yields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(nap);
  }
  return true;
}

}  // namespace ringside::peer
