// A rank of a library that works on ordinary memory of the host.
#pragma once

#include <algorithm>
#include <vector>

#include "experiments/tools/bench/rank/serve.h"

namespace ringside::tools::bench {

class HostRank : public CommRank {
 public:
  HostRank(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  void prepare(const CommOperation& operation, std::int64_t count) override {
    operation_ = &operation;
    array_.assign(static_cast<std::size_t>(count), 0);
    other_.assign(array_.size(), 0);
  }
  void fill() override {
    operation_->fill(array_, rank_, ranks_);
    if (in_other()) std::fill(other_.begin(), other_.end(), -1.0F);
  }
  std::int64_t count_wrong() override {
    const std::span<const float> whole = in_other() ? other_ : array_;
    return operation_->count_wrong(operation_->gives_part ? whole.first(part()) : whole, rank_,
                                   ranks_);
  }

 protected:
  int rank() const { return rank_; }
  std::string_view operation() const { return operation_->name; }
  /// Elements of the array, and of one part.
  std::size_t count() const { return array_.size(); }
  std::size_t part() const { return array_.size() / static_cast<std::size_t>(ranks_); }
  /// all_reduce, all_gather and broadcast work in place. The results of reduce_scatter and
  /// all_to_all begin at other().
  float* array() { return array_.data(); }
  float* other() { return other_.data(); }
  float* own_part() { return array_.data() + static_cast<std::size_t>(rank_) * part(); }

 private:
  bool in_other() const {
    return operation_->name == "reduce_scatter" || operation_->name == "all_to_all";
  }

  int rank_, ranks_;
  const CommOperation* operation_ = nullptr;
  std::vector<float> array_, other_;
};

}  // namespace ringside::tools::bench
