// StepBudget: the steps of a run whose workers share them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace ringside::ps {

/// Hands out the steps of a run, `steps` for each of its workers, to whichever worker asks
/// (Kind::ticket).
class StepBudget {
 public:
  struct Rule {
    std::int64_t period = 1;  // the most steps of a worker up to its next push
    bool by_speed = false;    // whether a slower worker takes fewer
  };
  StepBudget(std::int64_t steps, int workers, const Rule& rule);

  /// Gives the worker the steps up to its next push; 0 if there are none left. By speed (DyLU: Liu
  /// et al. 2024, arXiv 2401.09135, equation 6) the fastest worker takes a whole period, and a
  /// slower one the share of it that takes as long; a worker that has not said its speed yet (0)
  /// takes a whole period. No steps beyond the run's first `limit` are given, and a period is kept
  /// for each worker that has had none yet and still `asks`.
  std::int64_t give(int worker, double speed, std::int64_t limit,
                    const std::function<bool(int worker)>& asks);
  /// All steps of the worker's seat that count as given out are `steps`.
  void count_given(int worker, std::int64_t steps);
  /// The worker's speed counts no more.
  void forget_speed(int worker) { speeds_[static_cast<std::size_t>(worker)] = 0; }

  /// The steps that were given out, in steps of the run, rounded up.
  std::int64_t begun() const;
  /// By worker: the steps that it was given, and the speed that it said last.
  const std::vector<std::int64_t>& given() const { return given_; }
  const std::vector<double>& speeds() const { return speeds_; }

  /// The run goes on after `steps` steps.
  void restored(std::int64_t steps);
  /// Of these each worker was given so many.
  void restored(std::vector<std::int64_t> given, std::vector<double> speeds);

 private:
  std::int64_t workers() const { return static_cast<std::int64_t>(given_.size()); }

  std::int64_t steps_;
  Rule rule_;
  std::int64_t left_;  // of all workers: steps not yet given out
  std::vector<std::int64_t> given_;
  std::vector<double> speeds_;
};

}  // namespace ringside::ps
