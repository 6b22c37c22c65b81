// Consistency: the rules by which a server accepts a gradient, updates a chunk, and gives out its
// values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/named_enum.h"

namespace ringside::ps {

/// The kinds of consistency. They differ in which updates of other workers a worker must or may
/// see.
enum class Consistency : std::uint8_t { bsp, ssp, asp, easgd };
inline constexpr std::string_view consistency_names[] = {"bsp", "ssp", "asp", "easgd"};
constexpr EnumNames names_of(Consistency) { return consistency_names; }
/// Whether every push is an update of its own, and a run ends after a total number of steps,
/// whichever workers do them.
constexpr bool is_asynchronous(Consistency consistency) {
  return consistency == Consistency::asp || consistency == Consistency::easgd;
}

struct ConsistencyRules {
  Consistency consistency = Consistency::bsp;
  std::int64_t staleness_bound = 0;  // ssp: in updates of a chunk
  int backup_workers = 0;            // bsp
  bool operator==(const ConsistencyRules&) const = default;
};

/// The rules for one chunk of parameters. The version of a chunk is the number of its updates. A
/// worker's gradients are numbered; where a step has one push, the number is that of the step. A
/// policy knows no worker and keeps no state.
class Policy {
 public:
  virtual ~Policy() = default;

  /// The rule for pushes: how far a worker's number may be ahead of the version.
  virtual std::int64_t most_ahead() const = 0;
  /// Whether a worker may skip numbers.
  virtual bool may_skip() const { return false; }
  /// The update that a gradient becomes part of; none if the gradient arrives too late.
  virtual std::optional<std::int64_t> update_of(std::int64_t number, std::int64_t version) const;
  /// The number of gradients of an update while `workers` workers are left. An update takes the
  /// first gradients to arrive, and adds them up in the order of their workers. If workers that
  /// would have to push are gone, the gradients of the others make the update.
  virtual int gradients(int workers) const { return workers; }
  /// The rule for reads: whether a worker that has pushed all its gradients below `number` may have
  /// the values of this version.
  virtual bool may_read(std::int64_t number, std::int64_t version) const = 0;
  /// Whether the values that a worker has read stay the newest ones until the worker pushes.
  virtual bool values_rest() const { return false; }
  /// Whether a worker's gradient is always added up or dropped before the worker may read.
  virtual bool gradients_rest() const { return true; }
  /// Whether workers share the steps of the run, so that a fast one does more of them. A worker may
  /// then take several steps for a push, whose number is that of the last of them.
  virtual bool shares_steps() const { return false; }
  /// The updates of a chunk in a run that goes on after `steps` steps of another algorithm.
  virtual std::int64_t updates_after(std::int64_t steps, int workers) const {
    return static_cast<void>(workers), steps;
  }
  /// Of merges: the seconds for which an update waits for further pushes, once gradients() of them
  /// have come. It then takes all that have come; it waits no longer once all workers have pushed,
  /// each of which may read once its push has been merged. None: an update waits for nothing else.
  virtual std::optional<double> grace_s() const { return {}; }
};

/// The rules of asp for workers that take several local steps before they push. Each push is an
/// update of its own.
class LocalAsp : public Policy {
 public:
  std::int64_t most_ahead() const override;
  bool may_skip() const override { return true; }
  std::optional<std::int64_t> update_of(std::int64_t, std::int64_t version) const override {
    return version;
  }
  int gradients(int) const override { return 1; }
  bool may_read(std::int64_t, std::int64_t) const override { return true; }
  bool shares_steps() const override { return true; }
  /// Those of an outer optimizer begin anew.
  std::int64_t updates_after(std::int64_t, int) const override { return 0; }
};

/// - bsp: bulk synchronous (Valiant, CACM 1990). No worker sees new values, or pushes its next
///   gradient, before every worker has pushed all earlier gradients.
/// - bsp with b backup workers (Chen et al., 2016): an update takes the first N gradients of N + b
///   workers; later ones are dropped, and their workers go on with the newest values.
/// - ssp: stale synchronous (Ho et al., NIPS 2013) with bound s. A worker that has done c steps may
///   read once the updates of all steps before c - s are done. An update is the sum of all workers'
///   gradients of a step, as in bsp, so with s = 0 both are the same; in the paper a worker also
///   sees its own updates at once. Gradients of workers that are ahead wait on the server, as
///   copies: with N workers and parameters of P bytes, at most (s + 1) * (N - 1) * P bytes.
/// - asp: asynchronous (Hogwild, Recht et al., NIPS 2011, chunk by chunk; Downpour, Dean et al.,
///   NIPS 2012). Every gradient is an update of its own, as soon as it arrives, and every read gets
///   the newest values.
/// - easgd: elastic averaging (Zhang, Choromanska and LeCun, NIPS 2015, asynchronous). The rules
///   are those of asp (LocalAsp), but workers push values in place of gradients, and not in every
///   step.
std::unique_ptr<Policy> make_policy(const ConsistencyRules& rules, int workers);

}  // namespace ringside::ps
