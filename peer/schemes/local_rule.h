// LocalRule: the rule by which workers that train replicas of their own exchange values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/compress/compression.h"
#include "core/device/device.h"
#include "core/observe/rank_record.h"
#include "core/scheme/scheme.h"
#include "core/scheme/scheme_info.h"

namespace ringside::peer {

/// Consecutive elements of the model that move together.
struct Fragment {
  std::int64_t begin = 0, count = 0;
  Tensor of(const Tensor& model) const { return model.range(begin, count); }
};

/// The worker that a rule belongs to. All outlive the rule.
struct RuleContext {
  Device& device;
  const Model& model;
  int worker = 0, workers = 1;
  std::int64_t steps = 1;  // of the run
};

/// The messages that a worker takes of a fragment. They may not be changed.
struct Received {
  std::span<const Tensor> messages;  // the sum of all messages, or those of LocalRule::sources()
  Tensor given;       // this worker's own message; not there where messages are summed
  bool last = false;  // whether this is after the last step of the run
};

/// The rule of a local scheme, such as local SGD. Every worker updates a replica of its own with
/// the gradients of its own samples, and after some steps gives a message. `delay()` steps later it
/// takes what has come. A worker has one object of the rule; the definition of the scheme has one
/// for each of its workers. Both call the same functions: workers move the messages by a
/// communicator, the definition by loops. So a scheme of this family is written once.
///
/// All tensors are fp32; `values` are those of one replica (master values in 16-bit runs), of one
/// fragment. Functions enqueue operations on the device and do not wait.
class LocalRule {
 public:
  explicit LocalRule(const RuleContext& context) : context_(context) {}
  virtual ~LocalRule() = default;

  /// The fragments of the model; by default the model is one.
  virtual std::vector<Fragment> fragments() const;
  /// Whether the fragment is given after `done` steps; `done` may be 0 where delay() is not.
  virtual bool gives(std::size_t fragment, std::int64_t done) const = 0;
  /// The number of steps from giving to taking, during which the messages move: with 1, what is
  /// given before a step is taken after it. What is on its way after the last step is taken then;
  /// what is given after the last step is taken at once.
  virtual std::int64_t delay() const { return 0; }
  /// Whether every worker takes the sum of all workers' messages; otherwise `worker` takes those of
  /// sources(worker, done) of what was given after `done` steps, in this order.
  virtual bool sums() const { return true; }
  virtual std::vector<int> sources(int worker, std::int64_t done) const;
  /// How messages that are summed are compressed on their way; by default they are not.
  virtual CompressionOptions compression() const { return {}; }

  /// Called once, with the initial values of the whole replica.
  virtual void attach(const Tensor& values) { static_cast<void>(values); }
  virtual void give(const Fragment& fragment, const Tensor& values, const Tensor& message) = 0;
  virtual void take(const Fragment& fragment, const Received& received, const Tensor& values) = 0;

  /// Figures over all that this worker has taken. May wait for the device.
  virtual std::vector<SchemeFigure> figures() const { return {}; }

 protected:
  const RuleContext& context() const { return context_; }
  const Kernels& kernels() const { return context_.device.kernels(); }
  float share() const { return 1.0F / static_cast<float>(context_.workers); }

 private:
  RuleContext context_;
};

using RuleMaker = std::function<std::unique_ptr<LocalRule>(const RuleContext&)>;

/// A worker of a scheme with this rule, and the scheme's definition. `name` names the exchange for
/// traces and errors: "average". Messages lie in memory of kind communication: one of the size of
/// the model, and one for each source.
std::unique_ptr<SyncScheme> make_by_rule(const RankContext& context, const char* name,
                                         const RuleMaker& make);
std::unique_ptr<SyncScheme> define_by_rule(const RankContext& context, const char* name,
                                           const RuleMaker& make);

/// The info of a scheme whose rule is of class Rule, made of a RuleContext and of options of type
/// Own. `exchange` is as `name` above. The caller adds the fewest bytes.
template <class Rule, class Own>
SchemeInfo local_scheme(std::string_view name, std::string_view summary, const char* exchange,
                        Own defaults) {
  SchemeInfo r = plain_scheme(name, summary, std::move(defaults));
  const auto maker = [](const Options& options) -> RuleMaker {
    return [own = options.as<Own>()](const RuleContext& context) {
      return std::make_unique<Rule>(context, own);
    };
  };
  r.promise = [](const Options&) { return Promise::own_algorithm; };
  r.own_replicas = true;
  r.make = [=](const RankContext& context, const Options& options) {
    return make_by_rule(context, exchange, maker(options));
  };
  r.define = [=](const RankContext& context, const Options& options) {
    return define_by_rule(context, exchange, maker(options));
  };
  return r;
}

/// The bytes that a worker sends where the sum of all messages of `elements` elements is taken once
/// every `period` steps: 2 * (N - 1) / N times the messages of N workers.
double sum_bytes(int workers, std::int64_t elements, std::int64_t period);

}  // namespace ringside::peer
