// Asynchronous DiLoCo: every push of a worker's local steps updates the servers at once.
#pragma once

#include "ps/schemes/outer_worker.h"

namespace ringside::ps {

struct AsyncDilocoOptions {
  OuterOptions outer{};
  std::int64_t momentum_delay = 0;  // 0: the number of workers
  double momentum_activation = 0;
  LocalServers servers{};
};

Fields fields_of(AsyncDilocoOptions& options);
/// Throws Error for option values that are not allowed, and for a plan that they do not go with.
void check(const AsyncDilocoOptions& options, const RunPlan& plan);

/// Asynchronous local SGD (Liu et al. 2024, arXiv 2401.09135, algorithm 3). A worker takes
/// `sync_every` local steps with an optimizer of its own (the inner one, [optimizer]), pushes the
/// difference g from the values x that it began with, and goes on from the newest x, without
/// waiting for other workers. Servers apply every push when it comes, range by range, by Delayed
/// Nesterov: with learning rate e, momentum b, `momentum_delay` = N, and `momentum_activation` = c
/// from 0 to 1 / N, every N-th push of a range ends with
///
///   m = b * m + (the mean of the last N pushes), x -= e * ((1 - c * N + c) * b * m + g / N),
///
/// and every other one with x -= e * (c * b * m + g / N). With c = 0 the momentum moves x in every
/// N-th push alone. With `by_speed` (DyLU, equation 6) a worker takes the share of `sync_every`
/// steps, rounded down, that its speed is of the fastest worker's, at least one; the first time a
/// whole period.
///
/// With parameters of P bytes in fp32, N workers and S servers, in each push a worker sends P bytes
/// and a server P / S bytes. A server holds x, m and a sum of pushes: 12 bytes a parameter.
SchemeInfo async_diloco_info();

/// Delayed Nesterov alone, as a test holds it against the paper. StepInfo::step counts the pushes
/// of a range. `parameters` are fp32.
std::unique_ptr<Optimizer> make_delayed_nesterov(const AsyncDilocoOptions& options, int workers,
                                                 Device& device, const Tensor& parameters);

}  // namespace ringside::ps
