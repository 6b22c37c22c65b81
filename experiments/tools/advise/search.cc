#include "experiments/tools/advise/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/device/ledger.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/predict.h"
#include "experiments/tools/advise/device_memory.h"
#include "experiments/tools/advise/fitted_meshes.h"
#include "experiments/tools/advise/single_device_profile.h"

namespace ringside::tools::advise {
namespace {

constexpr double gb = 1e9;

/// The numbers of micro-batches into which a rank's samples of a step divide, the smallest first.
std::vector<std::int64_t> divisors(std::int64_t samples) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 1; i <= samples; ++i)
    if (samples % i == 0) all.push_back(i);
  return all;
}

bool same_line(const Candidate& a, const Candidate& b) {
  return a.world == b.world && a.family.label == b.family.label && a.precision == b.precision;
}

/// Whether `b` does the same as `a` with less work: with no more micro-batches, and with less
/// recomputation or offload.
bool spares(const Candidate& b, const Candidate& a) {
  return same_line(a, b) && b.recompute <= a.recompute && b.offload <= a.offload &&
         b.micro_batches <= a.micro_batches &&
         (b.recompute != a.recompute || b.offload != a.offload);
}

class Search {
 public:
  Search(const Question& question, const runner::Simulate& simulate,
         const runner::Rehearse& rehearse, const std::function<double()>& now,
         const std::function<void(const Considered&)>& say)
      : question_(question),
        simulate_(simulate),
        rehearse_(rehearse),
        say_(say),
        now_(now),
        end_(now() + question.seconds),
        lone_(question, simulate) {}

  Advice run() {
    list_candidates();
    if (!question_.machine) interrupted_ = !fit_all();
    if (!question_.machine && !interrupted_ && (question_.meshes || !fits_without_offload()))
      interrupted_ = !add_meshes();
    simulate_all();
    tune_best();
    return advice();
  }

 private:
  bool goes_on() const { return !interrupted_ && now_() < end_; }

  // ---- the candidates

  void list_candidates() {
    const ModelInfo& model = find_model(question_.training.model.kind);
    for (const std::int64_t world : question_.worlds) {
      int simplicity = 0;
      for (const Family& family : families_of(question_, world)) {
        for (const std::string& precision : question_.precisions)
          for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full})
            for (const Offload offload : {Offload::none, Offload::optimizer, Offload::parameters}) {
              const bool varies = recompute != Recompute::none || offload != Offload::none;
              if (offload > family.offloads || (question_.machine && varies) ||
                  (recompute == Recompute::attention && !model.attention))
                continue;
              all_.push_back({.candidate = {.family = family,
                                            .simplicity = simplicity,
                                            .world = world,
                                            .precision = precision,
                                            .recompute = recompute,
                                            .offload = offload}});
            }
        ++simplicity;
      }
    }
  }

  /// Gives every candidate the fewest micro-batches with which it fits a device, and their compute
  /// time. Returns false if the user interrupts.
  bool fit_all() {
    std::vector<MicroBatch> small;
    for (const Considered& one : all_)
      for (const std::int64_t samples : {1, 2})
        small.push_back({one.candidate.precision, one.candidate.recompute, samples});
    if (!lone_.measure(small)) return false;
    for (Considered& one : all_) fit(one, 1);
    return bound_all();
  }

  // ---- meshes, where they are asked for or nothing fits that leaves the model whole without
  // offload

  bool fits_without_offload() const {
    return std::any_of(all_.begin(), all_.end(), [&](const Considered& one) {
      return pending(one) && one.candidate.offload == Offload::none;
    });
  }

  /// Returns false if the user interrupts.
  bool add_meshes() {
    const auto meshes = fitted_meshes(question_, simulate_, rehearse_);
    if (meshes) all_.insert(all_.end(), meshes->begin(), meshes->end());
    return meshes.has_value();
  }

  /// Finds the fewest micro-batches, but at least `at_least`, with which the candidate fits.
  void fit(Considered& one, std::int64_t at_least) {
    Candidate& candidate = one.candidate;
    const double room = gb * (question_.memory_gb() - question_.reserve_gb);
    const std::int64_t share = question_.training.train.global_batch / candidate.world;
    MemoryUse held;
    try {
      held = least_states(plan_of(question_, candidate), question_.parameters);
    } catch (const std::exception& error) {
      give_up(one, Outcome::failed, error.what());
      return;
    }
    one.needs_gb = static_cast<double>(held.total()) / gb;
    if (one.needs_gb * gb > room)
      return give_up(one, Outcome::no_memory,
                     fmt::format("its model states alone take {} of a device: {}",
                                 memory_text(gb * one.needs_gb), parts_of_memory(held)));
    for (const std::int64_t count : divisors(share)) {
      if (count < at_least) continue;
      candidate.micro_batches = count;
      held[MemoryKind::activation] =
          static_cast<std::int64_t>(lone_.activation_bytes(micro_batch_of(question_, candidate)));
      one.needs_gb = static_cast<double>(held.total()) / gb;
      if (one.needs_gb * gb <= room) return;
    }
    give_up(one, Outcome::no_memory,
            one.needs_gb * gb > room
                ? fmt::format("with one sample at a time it takes {} of a device: {}",
                              memory_text(gb * one.needs_gb), parts_of_memory(held))
                : "with one sample at a time a device has no memory left");
  }

  /// Finds the time of compute alone in a step of each candidate.
  bool bound_all() {
    std::vector<MicroBatch> all;
    for (const Considered& one : all_)
      if (pending(one) && one.candidate.family.stages.ranks == 1)
        all.push_back(micro_batch_of(question_, one.candidate));
    if (!lone_.measure(all)) return false;
    for (Considered& one : all_)
      if (pending(one) && one.candidate.family.stages.ranks == 1)
        one.bound_ms = std::max(compute_ms(one.candidate), network_ms(question_, one.candidate));
    return true;
  }
  /// Milliseconds that a device computes in a step of the candidate.
  double compute_ms(const Candidate& candidate) const {
    return static_cast<double>(candidate.micro_batches) *
           lone_.compute_ms(micro_batch_of(question_, candidate)) /
           static_cast<double>(candidate.family.stages.ranks);
  }

  // ---- simulations

  bool pending(const Considered& one) const {
    return one.outcome == Outcome::not_tried && one.why.empty();
  }
  static void give_up(Considered& one, Outcome outcome, const std::string& why) {
    one.outcome = outcome;
    one.why = why;
  }

  /// The fastest of those that were simulated at this world, or null.
  const Considered* fastest(std::int64_t world) const {
    const Considered* best = nullptr;
    for (const Considered& one : all_)
      if (one.outcome == Outcome::simulated && one.candidate.world == world &&
          (!best || one.step_ms < best->step_ms))
        best = &one;
    return best;
  }

  /// Drops candidates whose compute alone takes longer than a whole step of another one, by so much
  /// that they would not be advised even if they were simpler.
  void prune() {
    for (Considered& one : all_) {
      const Considered* best = pending(one) ? fastest(one.candidate.world) : nullptr;
      if (!best) continue;
      const bool spares_trouble = simpler(one.candidate, best->candidate);
      if (one.bound_ms >= best->step_ms * (spares_trouble ? 1 + as_fast(question_) : 1))
        give_up(one, Outcome::cannot_win,
                fmt::format("its {} takes {:.1f} ms, a step of '{}' {:.1f} ms", bound_of(one),
                            one.bound_ms, label_of(best->candidate), best->step_ms));
    }
  }

  /// What takes a candidate as long as its bound.
  const char* bound_of(const Considered& one) const {
    if (one.candidate.family.stages.ranks > 1) return "pipeline alone";
    return one.bound_ms > compute_ms(one.candidate) ? "network" : "compute alone";
  }

  /// Those that are worth a simulation now, the most promising first.
  std::vector<Considered*> ready() {
    std::vector<Considered*> out;
    for (Considered& one : all_) {
      if (!pending(one)) continue;
      const bool needless = std::any_of(all_.begin(), all_.end(), [&](const Considered& other) {
        return (other.outcome == Outcome::simulated || pending(other)) &&
               spares(other.candidate, one.candidate);
      });
      if (!needless) out.push_back(&one);
    }
    std::stable_sort(out.begin(), out.end(), [](const Considered* a, const Considered* b) {
      return a->bound_ms < b->bound_ms;
    });
    return out;
  }

  void simulate_all() {
    while (goes_on()) {
      prune();
      std::vector<Considered*> next = ready();
      if (next.empty()) break;
      next.resize(std::min(next.size(), static_cast<std::size_t>(question_.processes)));
      simulate(next);
    }
    for (Considered& one : all_)
      if (pending(one)) {
        const bool in_time = goes_on();
        give_up(one, in_time ? Outcome::needless : Outcome::not_tried,
                in_time ? "the same fits with less recomputation or offload"
                        : fmt::format("not simulated within {:.0f} s", question_.seconds));
      }
  }

  void simulate(const std::vector<Considered*>& some) {
    std::vector<RunPlan> plans;
    std::vector<Considered*> planned;
    for (Considered* one : some) try {
        RunPlan plan = plan_of(question_, one->candidate);
        if (const std::string lack = lack_of_host_memory(question_, plan); !lack.empty()) {
          give_up(*one, Outcome::no_memory, lack);
          continue;
        }
        plans.push_back(std::move(plan));
        planned.push_back(one);
      } catch (const std::exception& error) {
        give_up(*one, Outcome::failed, error.what());
      }
    const std::vector<runner::RunOutcome> outcomes = simulate_(plans, std::max(0.0, end_ - now_()));
    bool again = false;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      interrupted_ |= outcomes[i].interrupted;
      if (!interrupted_) again |= !take(*planned[i], outcomes[i].row);
    }
    if (again && !bound_all()) interrupted_ = true;
  }

  /// Takes the outcome of a simulation. Returns false if the candidate is to be tried with more
  /// micro-batches.
  bool take(Considered& one, const RunRecord& row) {
    if (row.status != "ok") {
      const bool memory = says_no_memory(row.error);
      if (memory && !question_.machine && one.candidate.family.stages.ranks == 1) {
        fit(one, one.candidate.micro_batches + 1);
        if (pending(one)) return false;
      }
      const bool late = row.error == runner::out_of_time;
      give_up(one,
              memory ? Outcome::no_memory
              : late ? Outcome::not_tried
                     : Outcome::failed,
              row.error);
      return true;
    }
    one.outcome = Outcome::simulated;
    one.samples_per_s = row.samples_per_s;
    one.step_ms = row.step_ms.median;
    one.compute_ms = row.time_ms.compute;
    one.exposed_ms = row.time_ms.exposed;
    one.optimizer_ms = std::max(row.time_ms.optimizer, row.time_ms.serving_optimizer);
    one.needs_gb = one.host_gb = 0;
    for (const RankRecord& rank : row.ranks) {
      const bool computes = row.plan.ranks[static_cast<std::size_t>(rank.rank)].worker >= 0;
      double& held = computes ? one.needs_gb : one.host_gb;
      held = std::max(held, static_cast<double>(rank.at_peak.total()) / gb);
      if (rank.host_memory)
        one.host_gb =
            std::max(one.host_gb, static_cast<double>(rank.host_memory->at_peak.total()) / gb);
    }
    say_(one);
    return true;
  }

  /// Tries other options of the scheme that is advised so far.
  void tune_best() {
    if (!goes_on() || question_.machine) return;
    const std::vector<Considered> so_far = ranked(question_, all_);
    if (so_far.empty()) return;
    std::vector<Considered> tuned;
    for (const std::vector<Setting>& settings : tunings_of(so_far.front().candidate)) {
      tuned.push_back({.candidate = so_far.front().candidate, .bound_ms = so_far.front().bound_ms});
      tuned.back().candidate.tuned = settings;
    }
    const std::size_t first = all_.size();
    all_.insert(all_.end(), tuned.begin(), tuned.end());
    std::vector<Considered*> next;
    for (std::size_t i = first; i < all_.size(); ++i) next.push_back(&all_[i]);
    const std::size_t at_once = static_cast<std::size_t>(question_.processes);
    for (std::size_t i = 0; i < next.size() && goes_on(); i += at_once)
      simulate({next.begin() + static_cast<std::ptrdiff_t>(i),
                next.begin() + static_cast<std::ptrdiff_t>(std::min(next.size(), i + at_once))});
    for (std::size_t i = first; i < all_.size(); ++i) {
      const double gain = so_far.front().step_ms / all_[i].step_ms - 1;
      if (all_[i].outcome == Outcome::simulated && gain < as_fast(question_))
        give_up(all_[i], Outcome::needless,
                fmt::format("it changes the speed by {:+.1f}%", 100 * gain));
    }
    for (std::size_t i = first; i < all_.size(); ++i)
      if (pending(all_[i])) {
        const bool in_time = goes_on();
        give_up(all_[i], in_time ? Outcome::no_memory : Outcome::not_tried,
                in_time ? "with this setting a device has no memory left"
                        : fmt::format("not simulated within {:.0f} s", question_.seconds));
      }
  }

  // ---- the answer

  void find_efficiency(std::vector<Considered>& ranked) {
    if (question_.machine) {
      for (Considered& one : ranked)
        if (const Considered* lone = fastest(1))
          one.efficiency =
              one.samples_per_s / (lone->samples_per_s * static_cast<double>(one.candidate.world));
      return;
    }
    const auto plainly = [](const Considered& one) {
      Candidate plain = one.candidate;
      plain.recompute = Recompute::none;
      return plain;
    };
    std::vector<MicroBatch> plain;
    for (const Considered& one : ranked) plain.push_back(micro_batch_of(question_, plainly(one)));
    try {
      if (!lone_.measure(plain)) return;
    } catch (const Error&) {
      return;  // a device alone took too long: efficiencies are not known then
    }
    for (Considered& one : ranked) one.efficiency = compute_ms(plainly(one)) / one.step_ms;
  }

  Advice advice() {
    Advice out{.ranked = ranked(question_, all_), .interrupted = interrupted_};
    if (!interrupted_) find_efficiency(out.ranked);
    for (const Considered& one : all_)
      if (one.outcome != Outcome::simulated) out.others.push_back(one);
    if (!out.ranked.empty() && !interrupted_) {
      const std::vector<RunPlan> ends =
          runner::bound_plans(plan_of(question_, out.ranked.front().candidate));
      if (!ends.empty()) out.bounds = bounds_of(ends, simulate_(ends, question_.seconds));
    }
    return out;
  }

  const Question& question_;
  const runner::Simulate& simulate_;
  const runner::Rehearse& rehearse_;
  const std::function<void(const Considered&)>& say_;
  const std::function<double()>& now_;
  double end_;
  SingleDeviceProfile lone_;
  std::vector<Considered> all_;
  bool interrupted_ = false;
};

}  // namespace

Advice search(const Question& question, const runner::Simulate& simulate,
              const runner::Rehearse& rehearse, const std::function<double()>& now,
              const std::function<void(const Considered&)>& say) {
  return Search(question, simulate, rehearse, now, say).run();
}

}  // namespace ringside::tools::advise
