// The memory that the processes of this project's ranks share.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <type_traits>

#include "core/comm/store.h"

namespace ringside::tools::bench {

inline constexpr int most_processes = 64;

/// Memory that processes share if they are forked after it was made.
struct SharedRanks {
  std::atomic<int> arrived;   // at meetings, in all
  std::atomic<int> reserved;  // entries of the store
  struct Entry {
    std::atomic<bool> whole;
    char key[128], value[512];
  } entries[16 * 1024];  // pages that are never written take no memory
};
/// The most entries that ranks can leave in a store.
inline constexpr int most_entries = std::extent_v<decltype(SharedRanks::entries)>;

/// Throws Error if there is no memory.
std::shared_ptr<SharedRanks> make_shared_ranks();

/// The place where `ranks` ranks meet. Each rank has one of its own over the same memory.
class Meeting {
 public:
  Meeting(SharedRanks& shared, int ranks, double timeout_s)
      : shared_(shared), ranks_(ranks), timeout_s_(timeout_s) {}
  /// Returns when all ranks have arrived; it spins, because a wake-up would add to the next
  /// measured time. Throws Error if a rank is missing.
  void meet();

 private:
  SharedRanks& shared_;
  int ranks_, round_ = 0;
  double timeout_s_;
};

/// Any rank may write.
class SharedStore : public Store {
 public:
  explicit SharedStore(SharedRanks& shared) : shared_(shared) {}
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, double timeout_s) override;
  std::optional<std::string> try_get(const std::string& key) override;

 private:
  SharedRanks& shared_;
};

}  // namespace ringside::tools::bench
