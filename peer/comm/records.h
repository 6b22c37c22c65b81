// The last collectives of each rank of a group, for the error when the group breaks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/store.h"
#include "peer/comm/collective.h"

namespace ringside::peer {

/// One collective of one rank. Times are in seconds of the rank's clock; `ended` is 0 while the
/// collective is under way.
struct Record {
  std::uint64_t number = 0;  // among the group's collectives, from 1
  Collective call;
  double begun = 0, ended = 0;
  char purpose[56] = {};  // its name from Communicator::name_next, cut to this length
};

/// The record of a collective that a rank begins.
Record record_of(std::uint64_t number, const Collective& call, std::string_view purpose,
                 double now);

/// The collectives of one rank: all that are under way, and the last ones that have ended. For one
/// thread at a time; ranks that share memory have SharedRecords.
class Records {
 public:
  /// The most collectives that are kept once they have ended.
  static constexpr std::size_t most = 256;
  explicit Records(std::size_t kept = most) : kept_(kept) {}

  /// Notes that the rank begins collective `number`, the next one, or has ended it.
  void begin(std::uint64_t number, const Collective& call, std::string_view purpose, double now);
  void end(std::uint64_t number, double now);
  /// From the earliest to the latest.
  std::vector<Record> list() const { return {records_.begin(), records_.end()}; }

 private:
  std::size_t kept_;
  std::deque<Record> records_;  // grows as collectives come: simulated groups may be large
};

/// The records of a group's ranks, from the earliest to the latest.
using RecordsOf = std::function<std::vector<Record>(int rank)>;

/// Lists the last operation of every rank, those furthest behind first: "rank 1 of 3: ended
/// operation 1 (barrier) 0.61 s ago; ranks 0, 2 of 3: in operation 2 (all_reduce of 40 bytes,
/// bucket head) for 0.50 s". `gone` tells which ranks have left the group. `ranks` are those with
/// known records; empty: all.
std::string where_ranks_are(int size, const RecordsOf& records,
                            const std::function<bool(int)>& gone, double now,
                            const std::vector<int>& ranks = {});

/// The same of one rank: "in operation 2 (barrier) for 0.50 s".
std::string where_rank_is(const std::vector<Record>& records, double now);

/// Leaves the records of the group's ranks [first, end), and the text that broke the group, in the
/// store for the user (kept_key), as one JSON object; each rank of a large group has fewer of them.
/// To be called once for each rank. Ignores errors of the store: the group has an error already.
void leave_records(Store& store, const std::string& group, const std::string& what, int first,
                   int end, const RecordsOf& records);

}  // namespace ringside::peer
