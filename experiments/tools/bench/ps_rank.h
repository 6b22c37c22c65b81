// A rank of `ringside bench ps`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "experiments/tools/bench/ps_way.h"
#include "experiments/tools/bench/rank/serve.h"
#include "experiments/tools/bench/spin_barrier.h"

namespace ringside::tools::bench {

/// A rank that keeps connections for several ways and uses one of them at a time. Its operation is
/// named by its ways: "ipc/bsp,tcp/bsp".
class PsRank : public BenchRank {
 public:
  /// Workers meet at `barrier`, or, without one, where server 0 sums. `store` outlives the rank.
  PsRank(const PsRoles& roles, Links links, Store& store, std::optional<SpinBarrier> barrier);

  void make_arrays(const std::string& operation, std::int64_t count) override;
  bool is_timed() const override { return roles_.works(); }
  void look() override;
  void begin_turn(const std::string& way) override;
  void fill() override { current_->fill(); }
  void meet() override;
  void call(const std::string&) override { current_->push_pull(); }
  std::int64_t count_wrong() override { return current_ ? current_->count_wrong() : 0; }

 private:
  PsRoles roles_;
  Links links_;
  Store& store_;
  std::optional<SpinBarrier> barrier_;
  std::unique_ptr<Device> device_;
  std::map<std::string, std::unique_ptr<PsWay>> ways_;
  PsWay* current_ = nullptr;
  int connections_ = 0;  // so far
};

}  // namespace ringside::tools::bench
