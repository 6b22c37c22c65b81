// RuleReplicas: replicas that exchange values by a LocalRule, on a worker or in the definition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/scheme/local_replicas.h"
#include "peer/schemes/consensus_distance.h"
#include "peer/schemes/local_scheme.h"
#include "peer/schemes/reducer.h"

namespace ringside::peer {

/// The part of workers and of the definition that is the same: the rules of the rank's replicas,
/// and the steps after which fragments are given and taken.
class RuleReplicas : public LocalReplicas {
 public:
  void attach(Model& model) override;
  void before_forward(std::size_t unit, const Pass& pass) override;
  /// Besides the replicas: what their rules keep, and what is on its way.
  void visit_state(const StateVisitor& visit) override;
  /// The means over the replicas of this rank.
  std::vector<SchemeFigure> figures() const override;

 protected:
  RuleReplicas(const RankContext& context, const char* name, RuleMaker make, int replicas)
      : LocalReplicas(context, replicas), name_(name), make_(std::move(make)) {}

  /// Gives the messages of all replicas of this rank, and begins to move them.
  virtual void begin(std::size_t fragment, std::int64_t done) = 0;
  /// Waits for what has been begun, and takes it.
  virtual void finish(std::size_t fragment, bool last) = 0;
  /// Visits a fragment's messages, which are all here and have not been taken: values [begin,
  /// begin + LocalRule::message_size()) of each.
  virtual void visit_messages(std::size_t fragment, std::int64_t begin,
                              const StateVisitor& visit) = 0;
  /// Returns the sum of the values of all replicas of all ranks, in the order of workers. Blocks.
  virtual Tensor sum_of_replicas() = 0;

  const LocalRule& rule(int replica) const { return *rules_[static_cast<std::size_t>(replica)]; }
  const std::vector<Fragment>& fragments() const { return fragments_; }
  /// The fragments as buckets, for compressors.
  std::vector<Bucket> buckets() const;
  std::string name_of_fragment(std::size_t fragment) const;
  /// The steps after which the fragment was given that is on its way.
  std::int64_t given_after(std::size_t fragment) const { return *given_after_[fragment]; }
  bool compresses() const { return ringside::compresses(rule(0).compression()); }

  void give(int replica, std::size_t fragment, const Tensor& message);
  void take(int replica, std::size_t fragment, const Received& received);

 private:
  void synchronise(const StepInfo& info) final;
  void correct();
  void measure();
  void begin_all(std::int64_t done, const std::vector<bool>& without);
  void end(std::size_t fragment, bool last);
  LocalRule& at(int replica) { return *rules_[static_cast<std::size_t>(replica)]; }
  std::vector<Tensor> moments(int replica) const;
  /// The whole values or the whole moment that the fragment is a part of.
  Tensor state(int replica, const Fragment& fragment) const;

  std::string name_;
  RuleMaker make_;
  std::vector<std::unique_ptr<LocalRule>> rules_;  // of this rank's replicas
  std::vector<ConsensusDistance> distances_;       // of each of them, from the first measurement on
  std::vector<Fragment> fragments_;
  std::vector<std::optional<std::int64_t>> given_after_;  // by fragment, while it is on its way
};

}  // namespace ringside::peer
