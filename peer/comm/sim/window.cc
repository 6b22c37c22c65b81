#include "peer/comm/sim/window.h"

#include <utility>

#include "core/base/error.h"
#include "peer/comm/sim/unwinding.h"

namespace ringside::peer {
namespace {

class TransferWork : public Work {
 public:
  TransferWork(sim::SimDevice& device, std::shared_ptr<SimGroup> group,
               SimAccesses::TransferPtr transfer)
      : device_(device), group_(std::move(group)), transfer_(std::move(transfer)) {}
  ~TransferWork() override {
    if (!transfer_->done && !unwinding_.now()) group_->accesses().await(*transfer_);
  }
  TransferWork(const TransferWork&) = delete;
  TransferWork& operator=(const TransferWork&) = delete;

  void wait() override {
    device_.catch_up();
    group_->accesses().await(*transfer_);
  }
  bool ready() override {
    device_.catch_up();
    return transfer_->done;
  }
  Span span() const override { return {{transfer_->begin}, {transfer_->end}}; }

 private:
  Unwinding unwinding_;
  sim::SimDevice& device_;
  std::shared_ptr<SimGroup> group_;
  SimAccesses::TransferPtr transfer_;
};

class SimWindow : public RmaWindow {
 public:
  SimWindow(sim::SimDevice& device, std::shared_ptr<SimGroup> group, int rank, std::size_t number,
            const Tensor& own)
      : RmaWindow(group->name(), rank, own, group->accesses().memory(number)),
        device_(device),
        group_(std::move(group)),
        rank_(rank) {}

 private:
  WorkPtr begin(const RmaOperation& access) override {
    group_->throw_if_broken();
    if (group_->gone(access.owner))
      throw Error("{}: rank {} of {} has left, and its memory with it", group_->name(),
                  access.owner, group_->size());
    device_.catch_up();
    carry_out(access);
    return std::make_unique<TransferWork>(device_, group_, group_->accesses().start(rank_, access));
  }

  sim::SimDevice& device_;
  std::shared_ptr<SimGroup> group_;
  int rank_;
};

}  // namespace

std::unique_ptr<Window> make_sim_window(sim::SimDevice& device, std::shared_ptr<SimGroup> group,
                                        int rank, std::size_t number, const Tensor& own) {
  return std::make_unique<SimWindow>(device, std::move(group), rank, number, own);
}

}  // namespace ringside::peer
