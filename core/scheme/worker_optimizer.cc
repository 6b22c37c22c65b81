#include "core/scheme/worker_optimizer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/device/host_side.h"
#include "core/observe/timeline.h"
#include "core/optim/optimizer.h"
#include "core/optim/optimizers.h"
#include "core/scheme/optimizer_of_stage.h"

namespace ringside {
namespace {

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
  void restored(std::span<const ParameterRange> ranges, std::int64_t skipped) override;

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

OffloadedOptimizer::OffloadedOptimizer(HostSide& host, Timeline& timeline, const Tensor& parameters,
                                       DType gradients, bool parameters_on_host, const Make& make)
    : host_(host), timeline_(timeline), parameters_on_host_(parameters_on_host) {
  Device& device = host.device();
  parameters_ = parameters_on_host ? parameters
                                   : device.tensor({parameters.count()}, MemoryKind::parameter,
                                                   parameters.dtype());
  gradients_ = device.tensor({parameters.count()}, MemoryKind::gradient, gradients);
  const HostTaskPtr fetched = parameters_on_host ? nullptr : host.fetch(parameters, parameters_);
  // The lane owns what it works with: a simulated rank may end while it waits.
  const auto made = std::make_shared<std::shared_ptr<Optimizer>>();
  host.run([made, make, &device, own = parameters_] { *made = make(device, own); }, fetched)
      ->wait();
  inner_ = *made;
}

std::vector<double> OffloadedOptimizer::measure(int round, const ParameterRange& range,
                                                const StepInfo& info) {
  const auto total = std::make_shared<std::vector<double>>(sums(round));
  std::vector<HostTaskPtr> tasks;
  each_piece(range, [&](const Piece& piece) {
    const auto add = [inner = inner_, own = on_host(piece.own), round, info, total] {
      const std::vector<double> part = inner->measure(round, own, info);
      std::transform(part.begin(), part.end(), total->begin(), total->begin(), std::plus<>());
    };
    tasks.push_back(host_.run(add, piece.fetched));
  });
  for (const HostTaskPtr& task : tasks) task->wait();
  return *total;
}

bool OffloadedOptimizer::settle(int round, std::span<const double> totals, const StepInfo& info) {
  const bool finite = inner_->settle(round, totals, info);
  if (!finite) pieces_.clear();  // they have been measured, so nothing is under way
  return finite;
}

void OffloadedOptimizer::expect(const ParameterRange& range, const StepInfo& info) {
  const bool updates = rounds() == 0;
  each_piece(range, [&](Piece& piece) {
    if (updates) begin_update(piece, info);
  });
}

void OffloadedOptimizer::update(const ParameterRange& range, const StepInfo& info) {
  each_piece(range, [&](Piece& piece) { begin_update(piece, info); });
}

void OffloadedOptimizer::finish(std::int64_t begin, std::int64_t count) {
  auto piece = pieces_.lower_bound(begin);
  if (piece != pieces_.begin() && end_of(std::prev(piece)->second) > begin) --piece;
  const auto end = pieces_.lower_bound(begin + count);
  if (piece == end) return;
  const auto span = timeline_.scope(Activity::exposed, "wait for the host's optimizer");
  for (; piece != end; piece = pieces_.erase(piece)) finish(piece->second);
}

void OffloadedOptimizer::finish(const Piece& piece) {
  const auto wait = [this](const HostTaskPtr& copy, const char* name, const Tensor& copied) {
    copy->wait();
    const auto [begin, end] = copy->span();
    timeline_.add(Activity::communication, name, {begin}, {end},
                  {.track = "host", .bytes = static_cast<std::int64_t>(copied.bytes())});
  };
  wait(piece.fetched, "gradients to the host", piece.own.gradients);
  if (piece.updated) piece.updated->wait();
  if (piece.stored) wait(piece.stored, "parameters to the device", piece.own.parameters);
}

/// Master values lie on the host, parameters that are their own masters on the device.
void OffloadedOptimizer::restored(std::span<const ParameterRange> ranges, std::int64_t skipped) {
  const bool has_masters = parameters_.dtype() != DType::f32;
  std::vector<ParameterRange> own;
  for (const ParameterRange& range : ranges) {
    own.push_back({range.begin, parameters_.range(range.begin, range.parameters.count()), {}});
    if (!has_masters && !parameters_on_host_)
      host_.fetch(range.parameters, own.back().parameters)->wait();
  }
  host_.run([inner = inner_, own, skipped] { inner->restored(own, skipped); }, nullptr)->wait();
  if (!has_masters || parameters_on_host_) return;
  for (std::size_t i = 0; i < own.size(); ++i)
    host_.store(own[i].parameters, ranges[i].parameters, nullptr)->wait();
}

std::int64_t OffloadedOptimizer::end_of(const Piece& piece) {
  return piece.own.begin + piece.own.gradients.count();
}

ParameterRange OffloadedOptimizer::on_host(const ParameterRange& own) const {
  const std::int64_t count = own.gradients.count();
  return {own.begin, parameters_.range(own.begin, count), gradients_.range(own.begin, count)};
}

void OffloadedOptimizer::each_piece(const ParameterRange& range,
                                    const std::function<void(Piece&)>& visit) {
  const std::int64_t end = range.begin + range.gradients.count();
  for (std::int64_t at = range.begin; at < end;) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.end() || piece->first > at) {
      const std::int64_t next = piece == pieces_.end() ? end : std::min(end, piece->first);
      const std::int64_t count = std::min(next - at, piece_elements), from = at - range.begin;
      Piece fetched{{at, range.parameters.range(from, count), range.gradients.range(from, count)}};
      fetched.fetched = host_.fetch(fetched.own.gradients, on_host(fetched.own).gradients);
      piece = pieces_.emplace(at, std::move(fetched)).first;
    }
    visit(piece->second);
    at = end_of(piece->second);
  }
}

void OffloadedOptimizer::begin_update(Piece& piece, const StepInfo& info) {
  if (piece.updated) return;
  const ParameterRange own = on_host(piece.own);
  piece.updated =
      host_.run([inner = inner_, own, info] { inner->update(own, info); }, piece.fetched);
  if (!parameters_on_host_)
    piece.stored = host_.store(own.parameters, piece.own.parameters, piece.updated);
}

/// The optimizer on this rank's device, or on the host beside it.
std::unique_ptr<Optimizer> own_optimizer(const RankContext& context, std::int64_t replicas,
                                         const Tensor& parameters, ParameterMap map) {
  const RunPlan& plan = context.plan;
  const OffloadedOptimizer::Make make = [&](Device& device, const Tensor& own) {
    return make_optimizer(plan.optimizer, {plan.train.steps, replicas, skips_steps(plan.train)},
                          device, own, std::move(map));
  };
  const Offload offload = plan.train.offload;
  if (offload == Offload::none) return make(context.device, parameters);
  if (!context.host)
    throw Error("rank {}: train.offload = '{}', but the rank has been given no host side",
                context.rank, name_of(offload));
  return std::make_unique<OffloadedOptimizer>(*context.host, context.timeline, parameters,
                                              sum_dtype(plan.train), offload == Offload::parameters,
                                              make);
}

}  // namespace

std::unique_ptr<Optimizer> worker_optimizer(const RankContext& context, std::int64_t replicas,
                                            const Tensor& parameters, ParameterMap map) {
  auto own = own_optimizer(context, replicas, parameters, std::move(map));
  if (!context.pipeline) return own;
  return optimizer_of_stage(context, std::move(own));
}

}  // namespace ringside
