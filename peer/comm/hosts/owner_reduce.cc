#include "peer/comm/hosts/owner_reduce.h"

#include <algorithm>
#include <cstring>

#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

constexpr auto ahead = static_cast<std::size_t>(segments_ahead);
/// The numbers of steps after which a segment should have left, so that its sum may come back to
/// the same memory, and after which its sum should have arrived.
constexpr std::size_t leaving = ahead + 1, returning = 2 * ahead;
/// Segments of many ranks arrive at a time; they become no smaller than this.
constexpr std::size_t least_segment_bytes = std::size_t{32} << 10;

/// A rank of another host. The lists have one transfer for each segment.
struct Other {
  int rank = 0;
  std::size_t index = 0;                        // among the ranks of other hosts
  std::vector<TransferPtr> sending, returning;  // of its part: this rank's values, and the sum
  std::vector<TransferPtr> arriving, leaving;   // of this rank's part: its values, and the sum
};

class Parts {
 public:
  Parts(HostGroup& host_group, Staging& staging, const PartSums& sums)
      : host_group_(host_group), staging_(staging), sums_(sums), places_(host_group.places()) {
    const int p = places_.size();
    for (int step = 1; step < p; ++step) {  // ranks do not all send to the same rank at once
      const int rank = (places_.rank() + step) % p;
      if (!places_.shares_host(rank)) others_.push_back({rank, others_.size(), {}, {}, {}, {}});
    }
    const std::size_t one = std::max(least_segment_bytes, 2 * segment_bytes / (others_.size() + 1));
    count_ = std::min(segment_bytes, one) / size_of(sums.dtype);
    for (const Part& part : sums.parts) most_ = std::max(most_, segments(part));
    own_ = segments(own_part());
    for (Other& other : others_) {
      const std::size_t its = segments(part_of_rank(other.rank));
      other.sending.resize(its);
      other.returning.resize(its);
      other.arriving.resize(own_);
      other.leaving.resize(own_);
    }
    staging_.reserve(ahead * others_.size(), count_ * size_of(sums.dtype));
  }

  void run() {
    for (std::size_t k = 0; k < ahead; ++k) {
      receive(k);
      send(k);
    }
    for (std::size_t step = 0; step < most_ + returning; ++step) {
      if (step < own_) add(step);
      receive(step + ahead);
      send(step + ahead);
      if (step + ahead >= leaving) await_return(step + ahead - leaving);
      if (step >= returning) finish(step - returning);
    }
    for (Other& other : others_)
      for (auto* list : {&other.sending, &other.leaving})
        for (TransferPtr& transfer : *list) host_group_.wait(transfer, other.rank);
  }

 private:
  const Part& part_of_rank(int rank) const { return sums_.parts[static_cast<std::size_t>(rank)]; }
  const Part& own_part() const { return part_of_rank(places_.rank()); }
  std::size_t segments(const Part& part) const { return (part.count + count_ - 1) / count_; }
  std::size_t count_of(const Part& part, std::size_t k) const {
    return std::min(count_, part.count - k * count_);
  }
  std::size_t bytes_of(const Part& part, std::size_t k) const {
    return count_of(part, k) * size_of(sums_.dtype);
  }
  /// The begin of segment k of a part in an array, in bytes.
  std::size_t offset_of(const Part& part, std::size_t k) const {
    return (part.begin + k * count_) * size_of(sums_.dtype);
  }
  std::byte* own_array() const { return sums_.arrays[static_cast<std::size_t>(places_.place())]; }
  std::byte* target(std::size_t k) const {
    return sums_.target + k * count_ * size_of(sums_.dtype);
  }
  std::byte* slot(const Other& other, std::size_t k) const {
    return staging_.slot(k % ahead * others_.size() + other.index);
  }

  void send(std::size_t k) {
    for (Other& other : others_)
      if (const Part& part = part_of_rank(other.rank); k < other.sending.size())
        other.sending[k] = host_group_.send(other.rank, Wire::Lane::steps,
                                            {own_array() + offset_of(part, k), bytes_of(part, k)});
  }

  void receive(std::size_t k) {
    if (k >= own_) return;
    for (Other& other : others_)
      other.arriving[k] = host_group_.receive(other.rank, Wire::Lane::steps,
                                              {slot(other, k), bytes_of(own_part(), k)});
  }

  void add(std::size_t k) {
    std::vector<const std::byte*> sources(static_cast<std::size_t>(places_.size()));
    for (Other& other : others_) {
      host_group_.wait(other.arriving[k], other.rank);
      sources[static_cast<std::size_t>(other.rank)] = slot(other, k);
      if (sums_.overlap) host_group_.wait(other.sending[k], other.rank);
    }
    std::vector<std::byte*> targets = {target(k)};
    const std::size_t offset = offset_of(own_part(), k);
    for (std::size_t i = 0; i < sums_.arrays.size(); ++i) {
      const int rank = places_.here()[i];
      sources[static_cast<std::size_t>(rank)] = sums_.arrays[i] + offset;
      if (sums_.everywhere && rank != places_.rank()) targets.push_back(sums_.arrays[i] + offset);
    }
    sum_in_order(sums_.dtype, sources, targets, count_of(own_part(), k));
    if (!sums_.everywhere) return;
    for (Other& other : others_)
      other.leaving[k] =
          host_group_.send(other.rank, Wire::Lane::results, {target(k), bytes_of(own_part(), k)});
  }

  void await_return(std::size_t k) {
    for (Other& other : others_) {
      if (k >= other.sending.size()) continue;
      host_group_.wait(other.sending[k], other.rank);
      const Part& part = part_of_rank(other.rank);
      if (sums_.everywhere)
        other.returning[k] = host_group_.receive(
            other.rank, Wire::Lane::results, {own_array() + offset_of(part, k), bytes_of(part, k)});
    }
  }

  void finish(std::size_t k) {
    for (Other& other : others_) {
      if (k < other.returning.size()) host_group_.wait(other.returning[k], other.rank);
      if (k < other.leaving.size()) host_group_.wait(other.leaving[k], other.rank);
    }
  }

  HostGroup& host_group_;
  Staging& staging_;
  const PartSums& sums_;
  const Places& places_;
  std::vector<Other> others_;
  std::size_t count_ = 1;           // elements of a segment
  std::size_t most_ = 0, own_ = 0;  // segments of the longest part, and of this rank's
};

}  // namespace

void sum_parts(HostGroup& host_group, Staging& staging, const PartSums& sums) {
  Parts(host_group, staging, sums).run();
}

}  // namespace ringside::peer
