// LocalRule: the rule by which workers that train replicas of their own exchange values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/compress/compression.h"
#include "core/device/device.h"
#include "core/models/model.h"
#include "core/observe/rank_record.h"

namespace ringside::peer {

/// Elements [begin, begin + count) of the model that move together: their values, or one of the
/// moments that the optimizer keeps of them.
struct Fragment {
  std::int64_t begin = 0, count = 0;
  std::size_t moment = 0;  // 0: the values; m: the m-th moment
  Tensor of(const Tensor& model) const { return model.range(begin, count); }
};

/// The worker that a rule belongs to. All outlive the rule.
struct RuleContext {
  Device& device;
  const Model& model;
  int worker = 0, workers = 1;
  std::int64_t steps = 1;   // of the run
  std::size_t moments = 0;  // of the optimizer, each with one fp32 value a parameter
};

/// The messages that a worker takes of a fragment. They may not be changed.
struct Received {
  std::span<const Tensor> messages;  // one sum, or the messages of LocalRule::sources()
  int summed = 1;                    // the number of messages in the sum
  Tensor given{};     // this worker's own message; not there where messages are summed
  bool last = false;  // whether this is after the last step of the run
};

/// Values that a rule needs in later steps, fp32, in its own memory: those of the model's
/// parameters, in their order, or a few of another kind.
struct RuleState {
  std::string_view name;  // "outer_momentum"
  Tensor values;
  bool common = false;           // whether all workers have the same values
  std::string_view begins_as{};  // as that of StateRange
};
/// Reads the values, or writes them, before it returns.
using RuleStateVisitor = std::function<void(const RuleState& state)>;

/// The rule of a local scheme, such as local SGD. Every worker updates a replica of its own with
/// the gradients of its own samples, and after some steps gives a message. `delay()` steps later it
/// takes what has come. A worker has one object of the rule; the definition of the scheme has one
/// for each of its workers. Both call the same functions: workers move the messages by a
/// communicator, the definition by loops. So a scheme of this family is written once.
///
/// All tensors are fp32; `values` are those of one replica (master values in 16-bit runs), or one
/// of its moments, of one fragment. Functions enqueue operations on the device and do not wait.
class LocalRule {
 public:
  explicit LocalRule(const RuleContext& context) : context_(context) {}
  virtual ~LocalRule() = default;

  /// The fragments of the model; by default the values of the model are one.
  virtual std::vector<Fragment> fragments() const {
    return {{0, context_.model.parameter_count()}};
  }
  /// Whether the fragment is given after `done` steps; `done` may be 0 where delay() is not.
  virtual bool gives(std::size_t fragment, std::int64_t done) const = 0;
  /// The number of steps from giving to taking, during which the messages move: with 1, what is
  /// given before a step is taken after it. What is on its way after the last step is taken then;
  /// what is given after the last step is taken at once.
  virtual std::int64_t delay() const { return 0; }
  /// Whether workers take a sum of messages; otherwise `worker` takes those of sources(worker,
  /// done) of what was given after `done` steps, in this order.
  virtual bool sums() const { return true; }
  virtual std::vector<int> sources(int worker, std::int64_t done) const {
    return static_cast<void>(worker), static_cast<void>(done), std::vector<int>();
  }
  /// The number of consecutive workers, from worker 0 on, that sum their messages among themselves;
  /// the last group may be smaller. By default all workers are one group.
  virtual int sum_group(std::int64_t done) const {
    return static_cast<void>(done), context_.workers;
  }
  /// All sizes that sum_group() may return, without that of all workers: the workers get a
  /// communicator for each of them before the first step. Needed where sum_group() is overridden.
  virtual std::vector<int> groups() const { return {}; }
  /// How messages that all workers sum are compressed on their way; by default they are not.
  virtual CompressionOptions compression() const { return {}; }
  /// The number of elements of a message.
  virtual std::int64_t message_size(const Fragment& fragment) const { return fragment.count; }

  /// Called once, with the initial values of the whole replica.
  virtual void attach(const Tensor& values) { static_cast<void>(values); }
  /// If corrects(), the replica's whole values are corrected after every update, before anything is
  /// given or taken.
  virtual bool corrects() const { return false; }
  virtual void correct(const Tensor& values) { static_cast<void>(values); }
  virtual void give(const Fragment& fragment, const Tensor& values, const Tensor& message) = 0;
  virtual void take(const Fragment& fragment, const Received& received, const Tensor& values) = 0;

  /// Whether the distance of replicas from their mean (peer/schemes/consensus_distance.h) is
  /// measured after `done` steps, before what is given then: an all-reduce of the replicas.
  virtual bool measures(std::int64_t done) const { return static_cast<void>(done), false; }
  /// Visits all that the rule keeps from one step to the next, after attach(), so that a run can go
  /// on from a checkpoint; by default nothing. What is on its way is no part of it.
  virtual void visit_state(const RuleStateVisitor& visit) { static_cast<void>(visit); }

  /// Figures over all that this worker has taken, which are no state: in a run that goes on from a
  /// checkpoint, over what it has taken since. May wait for the device.
  virtual std::vector<SchemeFigure> figures() const { return {}; }

 protected:
  const RuleContext& context() const { return context_; }
  const Kernels& kernels() const { return context_.device.kernels(); }
  float share() const { return 1.0F / static_cast<float>(context_.workers); }

 private:
  RuleContext context_;
};

}  // namespace ringside::peer
