// PostValidation: sums over the stages of a pipeline for which optimizers do not wait.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/comm/communicator.h"
#include "core/scheme/rank_context.h"

namespace ringside {

/// An update that goes ahead of the totals over all stages (Optimizer::settle).
class EarlyUpdate {
 public:
  virtual ~EarlyUpdate() = default;
  /// The totals leave gradients as the update has taken them: what it has kept is needed no more.
  virtual void confirm() = 0;
  /// Puts back all that the update has written, and updates again as the totals say. Returns false
  /// if nothing is updated then, as Optimizer::settle().
  virtual bool put_right(std::span<const double> totals) = 0;
};

/// One rank's part of the validation of optimizers after the fact: Qi et al. 2024, "Zero Bubble
/// Pipeline Parallelism", section 4. After the last gradients of a step a rank gets the sums over
/// the stages of earlier ranks from the rank before, adds its own, and passes them on. If these
/// partial sums leave gradients as they are, which nearly all steps' totals do, it updates at once
/// and begins the next step. The last rank knows the totals and sends them to all others, which
/// look at them before the first backward of the next step (pipeline::validation_points). Where
/// partial sums already say that gradients are clipped or not finite, so do the totals, and the
/// rank waits for them; so do all ranks behind it. If rank 0 waits, nothing has to be put right.
///
/// With p ranks and n sums, ranks 0 to p - 2 send 8 (n + 1) bytes a step each, and the last rank
/// 8 (p - 1) n. All workers with the same stages have the same sums, and decide alike. For the
/// thread that trains.
class PostValidation {
 public:
  /// Whether sums leave gradients as they are; if not for a part of them, then not for all.
  using Leaves = std::function<bool(std::span<const double> sums)>;
  enum class Verdict : std::uint8_t {
    right,    // the step stands as it is
    amended,  // it had to be put right on some rank, and is: work begun since is to be repeated
    undone    // the same, and this rank has updated nothing: gradients are not finite
  };

  /// `whole` is the context of this rank in the run of all stages. The communicator is that of the
  /// ranks of one pipeline, in their order, and nothing else goes over it.
  PostValidation(const RankContext& whole, std::unique_ptr<Communicator> communicator);

  /// The update of a step begins, whose sums over this rank's stages are `own`. Blocks until those
  /// of earlier ranks are here. Returns the sums with which the optimizer is to be settled, and,
  /// unless they are the totals, validates `update` later, which lives until then.
  std::vector<double> begin(std::span<const double> own, const Leaves& leaves, EarlyUpdate& update);
  /// Whether this rank, or one before it that was wrong, has gone ahead in the last step:
  /// validate() must be called before the next begin().
  bool is_due() const { return step_.has_value(); }
  /// Whether this rank has gone ahead in the last step.
  bool has_gone_ahead() const { return step_ && step_->update; }
  /// Blocks until the totals are here, and, if some rank has to be put right, calls `amend` with
  /// what puts this rank right (SyncScheme::amend).
  Verdict validate(const std::function<void(const std::function<void()>& put_right)>& amend);
  /// The number of steps that were not right.
  std::int64_t amended() const { return amended_; }

  Traffic traffic() const { return communicator_->traffic(); }

 private:
  struct Message {
    Tensor values{};
    WorkPtr work{};
  };
  /// A step that is not validated yet.
  struct Step {
    Leaves leaves{};
    EarlyUpdate* update = nullptr;  // null if this rank knew the totals
    Message on_their_way{};         // the totals, if it did not
    std::vector<double> totals{};
  };

  bool is_last() const { return communicator_->rank() + 1 == communicator_->size(); }
  Message begin_receive(std::size_t count, int from);
  void send(std::span<const double> values, int to);
  std::vector<double> values_of(const Message& message) const;
  bool add_earlier(std::span<double> sums);
  void pass_on(std::span<const double> sums, bool first_goes_ahead);

  const RankContext& whole_;
  std::unique_ptr<Communicator> communicator_;
  std::optional<Step> step_;
  std::deque<Message> sent_;  // until they are over
  std::int64_t amended_ = 0;
};

}  // namespace ringside
