// Replicas of a model side by side on one rank, each trained on samples of its own.
#pragma once

#include <memory>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/scheme/replica.h"
#include "core/scheme/scheme.h"

namespace ringside {

/// The base of schemes whose workers train replicas of their own. A rank keeps `replicas` of them,
/// each with an optimizer. The rank's micro-batches are divided evenly among its replicas, in
/// order. In every step each replica is updated with the mean gradient of its own samples; then
/// synchronise() may change the replicas.
///
/// A worker of such a scheme has one replica. The scheme's definition has the replicas of all
/// workers on one rank, and writes the scheme's rule as plain loops over them. Both train with the
/// same bits as long as both apply the same rule.
class LocalReplicas : public SyncScheme {
 public:
  void attach(Model& model) override;
  void before_forward(std::size_t unit, const Pass& pass) override;
  void before_backward(std::size_t unit, const Pass& pass) override;
  void after_backward(std::size_t unit, const Pass& pass) override;
  bool step(const StepInfo& info) override;
  /// The samples of one replica.
  std::int64_t gradient_batch() const override;
  int own_replicas() const override { return replicas_; }
  void visit_parameters(const ParameterVisitor& visit) override;
  /// The parameters of each replica, and the state of its optimizer.
  void visit_state(const StateVisitor& visit) override;
  void restored(std::int64_t skipped) override;

 protected:
  LocalReplicas(const RankContext& context, int replicas)
      : SyncScheme(context), replicas_(replicas) {}

  /// Applies the rule of the scheme after every replica has been updated; the default does nothing.
  virtual void synchronise(const StepInfo& info) { (void)info; }

  /// The whole model's parameters of one of this rank's replicas, in fp32: the optimizer's master
  /// values if the parameters have 16 bits. After changing them call round_parameters().
  Tensor values(int replica) const;
  /// Rounds values() to the parameters with which the replica computes: all of them, or elements
  /// [begin, begin + count).
  void round_parameters(int replica) const;
  void round_parameters(int replica, std::int64_t begin, std::int64_t count) const;
  /// Updates one replica with its gradients. step() does so with every replica.
  void update(int replica, const StepInfo& info);
  Model& model() const { return *model_; }
  /// The worker of one of this rank's replicas: a replica's number among those of all ranks.
  int worker_of(int replica) const { return context().self().worker * replicas_ + replica; }
  /// Sets the state of the replica's optimizer, but for master values, to 0.
  void begin_moments_anew(int replica);
  const Optimizer& optimizer(int replica) const { return *at(replica).optimizer; }

 private:
  struct Own {
    Replica replica;
    std::unique_ptr<Optimizer> optimizer;
  };
  const Own& at(int replica) const { return own_[static_cast<std::size_t>(replica)]; }
  /// The replica of this rank that computes the micro-batch, and the pass in that replica's
  /// numbering.
  Own& own(const Pass& pass);
  Pass within_replica(Pass pass) const;

  int replicas_;
  Model* model_ = nullptr;
  std::vector<Own> own_;
};

/// Checks that workers of the plan can train replicas of their own. Throws Error for batch norms
/// over several ranks, for fp16, whose loss scale would differ between replicas, and for workers
/// with different shares of a step.
void check_side_by_side(const RunPlan& plan);

}  // namespace ringside
