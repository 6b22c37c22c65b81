// Checkpoint intervals: which are best where a run fails at random, and what it then takes.
#pragma once

namespace ringside {

/// Below, a run trains for `interval_s` and then stands still for `cost_s` until the checkpoint is
/// safe, again and again. Failures come at exponential intervals of `mtbf_s` on average, and each
/// costs `restart_s`, in which the run may fail again, and the work since the newest checkpoint.

/// The interval of Young 1974 (CACM 17(9)): sqrt(2 C M), right to first order in C / M.
double young_interval_s(double cost_s, double mtbf_s);

/// That of Daly 2006 (Future Generation Computer Systems 22(3), equation 37): with x = sqrt(C / 2M)
/// sqrt(2 C M) (1 + x / 3 + x^2 / 9) - C for C < 2M, else M. A run then takes at most 0.2% more
/// than the least of expected_time_s(), which tests hold it to.
double daly_interval_s(double cost_s, double mtbf_s);

/// The mean time that `work_s` of training take: M e^(R/M) (e^((I + C) / M) - 1) work / I, exactly
/// (Daly 2006, equation 20).
double expected_time_s(double work_s, double interval_s, double cost_s, double restart_s,
                       double mtbf_s);

}  // namespace ringside
