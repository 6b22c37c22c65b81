#include "peer/comm/shm/control.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/processor.h"

namespace ringside::peer {

/// The beginning of the file; the ranks and the lanes follow. A new file is all zeros, which is the
/// right first value for every field but `magic` and `size`.
struct alignas(64) Control::Header {
  static constexpr std::uint64_t expected_magic = 0x52696e6773696465;  // "Ringside"
  std::uint64_t magic;
  std::int32_t size;
  std::atomic<std::uint32_t> broken;  // 0: no; 1: the text is being written; 2: the text says why
  std::atomic<std::uint32_t> spoken;  // whether a rank speaks for all
  char text[2048];
};

namespace {

/// Whether `phase` has reached `target`; phases wrap around.
bool reached(std::uint32_t phase, std::uint32_t target) {
  return static_cast<std::int32_t>(phase - target) >= 0;
}

std::uint32_t arrival(std::uint64_t number) { return static_cast<std::uint32_t>(2 * number); }

}  // namespace

Control::Control(Device& device, Store& store, const Group& group, double timeout_s,
                 std::optional<Whole> whole, Interruption* interruption)
    : device_(device),
      store_(store),
      group_(group),
      timeout_s_(timeout_s),
      whole_(std::move(whole)),
      spin_(group.size <= allowed_cores().value_or(0)) {
  if (rank() == 0)
    create();
  else
    join();
  if (interruption) call_ = interruption->when_raised([this] { abandon(); });
  come_together();
}

Control::~Control() {
  call_ = {};
  say_gone();
}

void Control::say_gone() {
  of(rank()).gone.store(1);
  of(rank()).phase.wake();
}

int Control::number_of(int rank) const {
  return whole_ ? whole_->ranks[static_cast<std::size_t>(rank)] : rank;
}

std::string Control::list(const std::function<bool(int)>& which) const {
  return list_ranks(whole_size(), [&](int named) {
    for (int r = 0; r < size(); ++r)
      if (number_of(r) == named) return which(r);
    return false;
  });
}

void Control::create() {
  file_ = shm::File::create(bytes(), "ranks");
  mapping_.emplace(file_);
  header().size = size();
  header().magic = Header::expected_magic;
  store_.set("group/" + group_.name, fmt::format("{}:{}", getpid(), file_.number()));
}

void Control::join() {
  int process = 0, number = 0;
  try {
    const std::string address = store_.get("group/" + group_.name, timeout_s_);
    if (std::sscanf(address.c_str(), "%d:%d", &process, &number) != 2)
      throw Error("'{}' is not the address of a group", address);
  } catch (const Error& e) {
    throw Error("{}: rank {} of {} did not open the group: {}", name(), number_of(0), whole_size(),
                e.what());
  }
  const shm::File file = shm::File::of_process(process, number);
  if (file.bytes() < sizeof(Header))
    throw Error("{}: rank {} of {} has left", name(), number_of(0), whole_size());
  mapping_.emplace(file);
  if (header().magic != Header::expected_magic)
    throw Error("{}: rank {} of {} has left", name(), number_of(0), whole_size());
  if (header().size != size())
    throw Error(
        "{}: the group has {} ranks on this rank, but {} on rank 0; all ranks must give the "
        "same size",
        name(), size(), header().size);
}

void Control::come_together() {
  constexpr std::uint32_t joined = 1;  // the end of operation 0, which is to join
  of(rank()).phase.set(joined);
  if (wait_for_all(joined, false, timeout_s_) != Outcome::all_here) {
    if (abandoned_) throw_broken();
    of(rank()).gone.store(1);
    fail(did_not_join(name(), missing(joined), timeout_s_));
  }
  file_ = shm::File();
}

std::size_t Control::bytes() const {
  const auto p = static_cast<std::size_t>(size());
  return sizeof(Header) + p * (sizeof(Rank) + 2 * p * sizeof(Lane) + sizeof(SharedRecords));
}

Control::Header& Control::header() const { return *reinterpret_cast<Header*>(mapping_->data()); }

Control::Rank& Control::of(int rank) const {
  return reinterpret_cast<Rank*>(mapping_->data() + sizeof(Header))[rank];
}

Control::Lane& Control::lane(Use use, int from, int to) const {
  auto* lanes = reinterpret_cast<Lane*>(&of(size()));
  return lanes[(static_cast<int>(use) * size() + from) * size() + to];
}

SharedRecords& Control::records(int rank) const {
  const auto pairs = static_cast<std::size_t>(2 * size() * size());
  auto* lanes = reinterpret_cast<Lane*>(&of(size()));
  return reinterpret_cast<SharedRecords*>(lanes + pairs)[rank];
}

void Control::arrive(std::uint64_t number, const Collective& call, const shm::Address& in,
                     std::string_view purpose, const shm::Address& out) {
  records(rank()).begin(number, call, purpose, now());
  of(rank()).call = call;
  of(rank()).in = in;
  of(rank()).out = out;
  of(rank()).phase.set(arrival(number));
  switch (wait_for_all(arrival(number), true, timeout_s_)) {
    case Outcome::all_here:
      return check_agreement(number);
    case Outcome::left:
      fail_waiting(ended_before(name(), missing(arrival(number), true), number, call));
    case Outcome::timed_out:
      fail_waiting(did_not_come(name(), missing(arrival(number)), number, call, timeout_s_));
    case Outcome::broken:
      throw_broken();
  }
}

void Control::leave(std::uint64_t number, double patience_s) {
  const std::uint32_t left = arrival(number) + 1;
  of(rank()).phase.set(left);
  // Keeps waiting if the group breaks meanwhile, because a peer may still read this rank's memory.
  const bool all_left = wait_for_all(left, false, timeout_s_ + patience_s) == Outcome::all_here;
  if (!all_left && abandoned_) throw_broken();
  if (!all_left)
    fail_waiting(did_not_end(name(), in_the_way(left), number, of(rank()).call, timeout_s_));
  records(rank()).end(number, now());
  throw_if_broken();
}

Control::Outcome Control::wait_for_all(std::uint32_t phase, bool heed_breaks, double timeout_s) {
  WaitingTime waited = begin_wait();
  shm::Backoff backoff = this->backoff();
  for (int r = 0; r < size(); ++r) {
    Rank& peer = of(r);
    for (;;) {
      // A peer sets its last phase and then `gone`. They are read the other way round: if `gone` is
      // set, `seen` is the peer's last phase.
      const bool gone = peer.gone.load() != 0;
      const std::uint32_t seen = peer.phase.value();
      if (reached(seen, phase)) {
        note_no_waiting();
        break;
      }
      note_waiting(r);
      if (abandoned_ || (heed_breaks && broken())) return Outcome::broken;
      if (gone) return Outcome::left;
      if (waited.seconds(now()) > timeout_s) return Outcome::timed_out;
      backoff.pause(peer.phase, seen);
    }
  }
  return Outcome::all_here;
}

std::string Control::missing(std::uint32_t phase, bool only_gone) const {
  const std::string who = list([&](int r) {
    return !reached(of(r).phase.value(), phase) && (!only_gone || of(r).gone.load() != 0);
  });
  return who.empty() ? "a rank that came too late" : who;
}

void Control::check_agreement(std::uint64_t number) {
  const Collective& first = of(0).call;
  for (int r = 1; r < size(); ++r)
    if (const Collective& other = of(r).call; !agree(first, other))
      fail(disagreement(name(), number, number_of(0), first, number_of(r), other));
}

void Control::note_waiting(int peer) {
  of(rank()).waits_for.store(peer + 1, std::memory_order_relaxed);
  of(rank()).seen_alive.store(now(), std::memory_order_relaxed);
}

int Control::rank_in_the_way(int peer) const {
  for (int steps = 0; steps < size(); ++steps) {
    const Rank& state = of(peer);
    const int next = state.waits_for.load() - 1;
    const bool lives = now() - state.seen_alive.load() < timeout_s_ / 2;
    if (state.gone.load() != 0 || next < 0 || !lives) return peer;
    peer = next;
  }
  return peer;  // they wait for each other
}

std::string Control::in_the_way(std::uint32_t phase) const {
  std::set<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (!reached(of(r).phase.value(), phase)) ranks.insert(rank_in_the_way(r));
  return list([&](int r) { return ranks.count(r) > 0; });
}

void Control::abandon() {
  abandoned_ = true;
  std::uint32_t whole = 0;
  if (header().broken.compare_exchange_strong(whole, 1)) {
    std::snprintf(header().text, sizeof header().text, "%s", world_changes().c_str());
    header().broken.store(2);
  }
  wake_all();
}

void Control::wake_all() {
  for (int r = 0; r < size(); ++r) {
    of(r).phase.wake();
    of(r).bell.wake();
  }
}

/// The records go first: the launcher ends all ranks once one has failed, and this one too.
void Control::break_group(const std::string& what) {
  std::uint32_t whole = 0;
  if (!header().broken.compare_exchange_strong(whole, 1)) {
    constexpr double longest_s = 1;  // the rank that breaks the group may be killed meanwhile
    for (const double end = now() + longest_s; !broken() && now() < end;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return;
  }
  if (!whole_)
    leave_records(store_, name(), what, 0, size(), [this](int r) { return records(r).list(); });
  std::snprintf(header().text, sizeof header().text, "%s", what.c_str());
  header().broken.store(2);
  wake_all();
}

bool Control::broken() const { return header().broken.load(std::memory_order_acquire) == 2; }

void Control::throw_if_broken() const {
  if (broken()) throw Error("{}", header().text);
}

/// The thread that interrupts this rank may still be writing why.
void Control::throw_broken() const {
  throw_if_broken();
  throw Error("{}", world_changes());
}

std::string Control::world_changes() const { return name() + ": the world changes"; }

std::string Control::where() const {
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) ranks.push_back(number_of(r));
  const auto here = [&](int named) {
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), named) - ranks.begin());
  };
  const auto records_of = [&](int named) { return records(here(named)).list(); };
  const auto gone = [&](int named) { return of(here(named)).gone.load() != 0; };
  return where_ranks_are(whole_size(), records_of, gone, now(), ranks);
}

bool Control::speaks_first() const { return header().spoken.exchange(1) == 0; }

void Control::fail_waiting(const std::string& what) { fail(fmt::format("{}; {}", what, where())); }

void Control::fail(const std::string& what) {
  break_group(what);
  throw_if_broken();
  throw Error("{}", what);  // another rank is just writing why it broke the group
}

}  // namespace ringside::peer
