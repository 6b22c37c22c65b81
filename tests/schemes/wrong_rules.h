// Rules of local schemes that are wrong on purpose, each made of a right rule.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/runner/registry/registry.h"
#include "peer/schemes/local_scheme.h"

namespace ringside::testing {

/// Does what another rule does.
class WrappedRule : public peer::LocalRule {
 public:
  WrappedRule(const peer::RuleContext& context, std::unique_ptr<peer::LocalRule> right)
      : LocalRule(context), right_(std::move(right)) {}

  std::vector<peer::Fragment> fragments() const override { return right_->fragments(); }
  bool gives(std::size_t fragment, std::int64_t done) const override {
    return right_->gives(fragment, done);
  }
  std::int64_t delay() const override { return right_->delay(); }
  bool sums() const override { return right_->sums(); }
  std::vector<int> sources(int worker, std::int64_t done) const override {
    return right_->sources(worker, done);
  }
  int sum_group(std::int64_t done) const override { return right_->sum_group(done); }
  std::vector<int> groups() const override { return right_->groups(); }
  CompressionOptions compression() const override { return right_->compression(); }
  std::int64_t message_size(const peer::Fragment& fragment) const override {
    return right_->message_size(fragment);
  }
  void attach(const Tensor& values) override { right_->attach(values); }
  bool corrects() const override { return right_->corrects(); }
  void correct(const Tensor& values) override { right_->correct(values); }
  void give(const peer::Fragment& fragment, const Tensor& values, const Tensor& message) override {
    right_->give(fragment, values, message);
  }
  void take(const peer::Fragment& fragment, const peer::Received& received,
            const Tensor& values) override {
    right_->take(fragment, received, values);
  }
  void visit_state(const peer::RuleStateVisitor& visit) override { right_->visit_state(visit); }
  bool measures(std::int64_t done) const override { return right_->measures(done); }
  std::vector<SchemeFigure> figures() const override { return right_->figures(); }

 private:
  std::unique_ptr<peer::LocalRule> right_;
};

/// Takes the messages of those who were its sources in the step before.
class MixesByTheGraphOfTheStepBefore : public WrappedRule {
 public:
  using WrappedRule::WrappedRule;
  std::vector<int> sources(int worker, std::int64_t done) const override {
    return WrappedRule::sources(worker, done > 0 ? done - 1 : 0);
  }
};

/// Sends the weight 1 of push-sum, whatever share of it the message has.
class ForgetsTheWeight : public WrappedRule {
 public:
  using WrappedRule::WrappedRule;
  void give(const peer::Fragment& fragment, const Tensor& values, const Tensor& message) override {
    WrappedRule::give(fragment, values, message);
    kernels().fill({.out = message.range(fragment.count, 1), .value = 1});
  }
};

/// Exchanges moments, and leaves them as they were.
class KeepsItsMoments : public WrappedRule {
 public:
  using WrappedRule::WrappedRule;
  void take(const peer::Fragment& fragment, const peer::Received& received,
            const Tensor& values) override {
    if (fragment.moment == 0) WrappedRule::take(fragment, received, values);
  }
};

/// An outer momentum that checkpoints forget: a run that goes on begins with none.
class ForgetsTheOuterMomentum : public WrappedRule {
 public:
  using WrappedRule::WrappedRule;
  void visit_state(const peer::RuleStateVisitor& visit) override {
    WrappedRule::visit_state([&](const peer::RuleState& state) {
      if (state.name != "outer_momentum") visit(state);
    });
  }
};

/// The row of a scheme whose workers, but not the definition, have a rule of class Wrapper around
/// the right one, which `make` makes of options of type Own.
template <class Wrapper, class Own>
SchemeInfo ruled_by(const std::string& name,
                    std::unique_ptr<peer::LocalRule> (*make)(const peer::RuleContext&,
                                                             const Own&)) {
  SchemeInfo row = runner::find_scheme(name);
  row.make = [make](const RankContext& context, const Options& options) {
    return peer::make_by_rule(context, "exchange",
                              [make, own = options.as<Own>()](const peer::RuleContext& of) {
                                return std::make_unique<Wrapper>(of, make(of, own));
                              });
  };
  return row;
}

}  // namespace ringside::testing
