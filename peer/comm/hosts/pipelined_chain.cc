#include "peer/comm/hosts/pipelined_chain.h"

#include <cstring>

#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

/// The number of steps after which a sent piece should have left, so that its sum may come back to
/// the same memory.
constexpr std::size_t sending = 2;

class Chain {
 public:
  Chain(HostGroup& host_group, Staging& staging, DType dtype,
        const std::vector<const std::byte*>& arrays, const std::vector<ChainPiece>& pieces)
      : host_group_(host_group),
        staging_(staging),
        dtype_(dtype),
        arrays_(arrays),
        pieces_(pieces),
        here_(host_group.places().host()),
        top_(host_group.places().hosts() - 1) {
    const Places& places = host_group.places();
    if (here_ > 0) below_ = places.counterpart_on(here_ - 1);
    if (here_ < top_) above_ = places.counterpart_on(here_ + 1);
    // A piece comes back later to hosts further down, so more pieces wait there.
    lag_ = ahead + 2 * static_cast<std::size_t>(top_ - here_);
    for (auto* list : {&rising_, &risen_, &sinking_, &sunk_}) list->resize(pieces.size());
    std::size_t longest = 0;
    bool apart = false;  // whether sums lie in slots of their own
    for (const ChainPiece& piece : pieces) {
      longest = std::max(longest, bytes(piece));
      apart = apart || !piece.home;
    }
    staging_.reserve(apart ? 2 * ahead + lag_ + ahead : ahead, longest);
  }

  void run() {
    const std::size_t n = pieces_.size();
    for (std::size_t k = 0; k < std::min(ahead, n); ++k) receive_from_below(k);
    for (std::size_t step = 0; step < n + lag_; ++step) {
      if (step < n) rise(step);
      if (step >= sending && step - sending < n) receive_from_above(step - sending);
      if (step >= lag_) sink(step - lag_);
    }
    for (std::size_t k = 0; k < n; ++k) {
      host_group_.wait(risen_[k], above_);
      host_group_.wait(sunk_[k], below_);
    }
  }

 private:
  static constexpr auto ahead = static_cast<std::size_t>(segments_ahead);

  std::size_t bytes(const ChainPiece& piece) const { return piece.count * size_of(dtype_); }

  // The slots: for pieces from below, for sums that leave this host, for sums that come back.
  std::byte* slot_from_below(std::size_t k) const { return staging_.slot(k % ahead); }
  std::byte* slot_of_sum(std::size_t k) const { return staging_.slot(ahead + k % ahead); }
  std::byte* slot_from_above(std::size_t k) const {
    return staging_.slot(2 * ahead + k % (lag_ + ahead));
  }

  void receive_from_below(std::size_t k) {
    if (below_ >= 0)
      rising_[k] =
          host_group_.receive(below_, Wire::Lane::steps, {slot_from_below(k), bytes(pieces_[k])});
  }

  void rise(std::size_t k) {
    const ChainPiece& piece = pieces_[k];
    std::vector<const std::byte*> sources;
    if (below_ >= 0) {
      host_group_.wait(rising_[k], below_);
      sources.push_back(slot_from_below(k));
    }
    for (const std::byte* array : arrays_) sources.push_back(array + piece.begin * size_of(dtype_));
    const std::byte* sum = above_ >= 0 ? sum_to_go_up(k, sources) : sum_to_stay(k, sources);
    if (below_ >= 0 && k + ahead < pieces_.size()) receive_from_below(k + ahead);
    if (above_ >= 0)
      risen_[k] = host_group_.send(above_, Wire::Lane::steps, {sum, bytes(piece)});
    else if (piece.lowest < here_)
      sunk_[k] = host_group_.send(below_, Wire::Lane::results, {sum, bytes(piece)});
  }

  const std::byte* sum_to_go_up(std::size_t k, const std::vector<const std::byte*>& sources) {
    const ChainPiece& piece = pieces_[k];
    if (sources.size() == 1) return sources.front();
    std::byte* target = piece.home;
    if (!target) {
      if (k >= ahead) host_group_.wait(risen_[k - ahead], above_);
      target = slot_of_sum(k);
    }
    sum_in_order(dtype_, sources, {&target, 1}, piece.count);
    return target;
  }

  const std::byte* sum_to_stay(std::size_t k, const std::vector<const std::byte*>& sources) {
    const ChainPiece& piece = pieces_[k];
    if (!piece.targets.empty()) {
      sum_in_order(dtype_, sources, piece.targets, piece.count);
      return piece.targets.front();
    }
    if (k >= ahead) host_group_.wait(sunk_[k - ahead], below_);
    std::byte* target = slot_of_sum(k);
    sum_in_order(dtype_, sources, {&target, 1}, piece.count);
    return target;
  }

  bool comes_back(const ChainPiece& piece) const { return above_ >= 0 && piece.lowest <= here_; }

  std::byte* place_from_above(std::size_t k) const {
    const ChainPiece& piece = pieces_[k];
    return piece.targets.empty() ? slot_from_above(k) : piece.targets.front();
  }

  void receive_from_above(std::size_t k) {
    const ChainPiece& piece = pieces_[k];
    if (!comes_back(piece)) return;
    host_group_.wait(risen_[k], above_);
    if (piece.targets.empty() && k >= lag_ + ahead)
      host_group_.wait(sunk_[k - lag_ - ahead], below_);
    sinking_[k] =
        host_group_.receive(above_, Wire::Lane::results, {place_from_above(k), bytes(piece)});
  }

  void sink(std::size_t k) {
    const ChainPiece& piece = pieces_[k];
    if (!comes_back(piece)) return;
    host_group_.wait(sinking_[k], above_);
    std::byte* sum = place_from_above(k);
    if (piece.lowest < here_)
      sunk_[k] = host_group_.send(below_, Wire::Lane::results, {sum, bytes(piece)});
    for (std::size_t t = 1; t < piece.targets.size(); ++t)
      std::memcpy(piece.targets[t], sum, bytes(piece));
  }

  HostGroup& host_group_;
  Staging& staging_;
  DType dtype_;
  const std::vector<const std::byte*>& arrays_;
  const std::vector<ChainPiece>& pieces_;
  int here_, top_, below_ = -1, above_ = -1;
  std::size_t lag_ = 0;
  // Of every piece: coming from below, leaving upward, coming from above, leaving downward.
  std::vector<TransferPtr> rising_, risen_, sinking_, sunk_;
};

}  // namespace

void sum_along_chain(HostGroup& host_group, Staging& staging, DType dtype,
                     const std::vector<const std::byte*>& arrays,
                     const std::vector<ChainPiece>& pieces) {
  // Ranks without a column have no pieces and no counterparts on other hosts.
  if (!pieces.empty()) Chain(host_group, staging, dtype, arrays, pieces).run();
}

}  // namespace ringside::peer
