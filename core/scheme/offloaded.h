// OffloadedOptimizer: an optimizer whose state lives in the host's memory.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "core/device/host_side.h"
#include "core/observe/timeline.h"
#include "core/optim/optimizer.h"

namespace ringside {

/// A decorator: the inner optimizer computes on the host's device, on copies of the parameters and
/// gradients there (ZeRO-Offload: Ren et al., ATC'21, sections 4 and 5). In each step the gradients
/// are copied to the host, and the parameters back. A range is processed in pieces, beside the
/// device's compute: while one piece is updated, the next one is copied to the host and the one
/// before is copied back. Without rounds (Optimizer::rounds()) the update of a piece begins in
/// expect(). With rounds, expect() copies the gradients and update() updates them. finish() waits
/// for the pieces that its caller needs; the wait counts as exposed.
///
/// The host holds the optimizer state, the parameter (32 bits: the master value) and the gradient
/// of every element, each under its kind of memory. If the parameters themselves live on the host
/// (ZeRO-Infinity: Rajbhandari et al., SC'21), ranges name the host's tensors, which are updated in
/// place, and nothing is copied back.
///
/// The bits are those of the inner optimizer: an element's update does not depend on its range, and
/// sums are exact. For one thread.
class OffloadedOptimizer final : public Optimizer {
 public:
  /// Makes the inner optimizer on this device, for these parameters.
  using Make = std::function<std::unique_ptr<Optimizer>(Device& device, const Tensor& parameters)>;
  /// The largest number of elements of a piece.
  static constexpr std::int64_t piece_elements = 1 << 24;

  /// `parameters` lie on the device, or on the host if `parameters_on_host`; gradients are of dtype
  /// `gradients`. Host side and timeline
  /// outlive the optimizer. Blocks until the host has its state.
  OffloadedOptimizer(HostSide& host, Timeline& timeline, const Tensor& parameters, DType gradients,
                     bool parameters_on_host, const Make& make);

  int rounds() const override { return inner_->rounds(); }
  std::size_t sums(int round) const override { return inner_->sums(round); }
  std::vector<double> measure(int round, const ParameterRange& range,
                              const StepInfo& info) override;
  bool settle(int round, std::span<const double> totals, const StepInfo& info) override;
  void update(const ParameterRange& range, const StepInfo& info) override;
  void expect(const ParameterRange& range, const StepInfo& info) override;
  bool expects() const override { return true; }
  void finish(std::int64_t begin, std::int64_t count) override;
  /// Tensors of the host.
  std::vector<OptimizerState> state() const override { return inner_->state(); }

 private:
  /// A part of a range, from its gradients' first copy until finish().
  struct Piece {
    ParameterRange own;  // of the device
    HostTaskPtr fetched{}, updated{}, stored{};
  };

  static std::int64_t end_of(const Piece& piece);
  /// The same elements in the host's memory.
  ParameterRange on_host(const ParameterRange& own) const;
  /// Calls `visit` with the pieces of the range, in order; begins to fetch what has no piece yet.
  void each_piece(const ParameterRange& range, const std::function<void(Piece&)>& visit);
  void begin_update(Piece& piece, const StepInfo& info);
  void finish(const Piece& piece);

  HostSide& host_;
  Timeline& timeline_;
  bool parameters_on_host_;
  Tensor parameters_, gradients_;         // of the host
  std::shared_ptr<Optimizer> inner_;      // shared with tasks of the host that are still to run
  std::map<std::int64_t, Piece> pieces_;  // by their first element
};

}  // namespace ringside
