// The last collectives of every rank of a group: who was where when the group broke.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/store.h"
#include "peer/comm/call.h"

namespace ringside::peer {

/// One collective of one rank. Times are in seconds of the rank's clock; `ended` is 0 while the
/// collective is under way.
struct Record {
  std::uint64_t number = 0;  // among the group's collectives, from 1
  Call call;
  double begun = 0, ended = 0;
  char purpose[56] = {};  // what the rank said of it (Communicator::name_next), cut to this length
};

/// The last collectives of one rank. Plain data that may lie in memory shared between processes:
/// the rank alone writes, and others read when the group has broken, so that they may find a record
/// half-written. Memory filled with zeros is an empty object.
class Records {
 public:
  static constexpr std::uint64_t kept = 256;

  /// The rank comes to collective `number`, the next one, or is through with it.
  void begin(std::uint64_t number, const Call& call, std::string_view purpose, double now);
  void end(std::uint64_t number, double now);
  /// The collectives that are still known, from the earliest to the latest.
  std::vector<Record> list() const;

 private:
  std::atomic<std::uint64_t> count_;  // of the collectives so far
  Record records_[kept];
};

/// The records of a group's ranks.
using RecordsOf = std::function<const Records&(int rank)>;

/// Says where every rank is, the rearmost first: "rank 1 of 3: ended operation 1 (barrier) 0.61 s
/// ago; ranks 0, 2 of 3: in operation 2 (all_reduce of 40 bytes, bucket head) for 0.50 s". `gone`
/// tells which ranks have left the group.
std::string where_ranks_are(int size, const RecordsOf& records,
                            const std::function<bool(int)>& gone, double now);

/// The same of one rank: "in operation 2 (barrier) for 0.50 s".
std::string where_rank_is(const Records& records, double now);

/// Leaves the records of the group's ranks [first, end), and the text that broke the group, in the
/// store for the user (kept_key), as one JSON object; of a large group, fewer of each rank. To be
/// called once for each rank. An error of the store is swallowed: the group has another one.
void leave_records(Store& store, const std::string& group, const std::string& what, int first,
                   int end, const RecordsOf& records);

}  // namespace ringside::peer
