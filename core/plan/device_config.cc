#include "core/plan/device_config.h"

namespace ringside {

Fields fields_of(SimConfig& config) {
  return {
      {"numerics", &config.numerics,
       "also compute the values, so that losses and hash equal those of a run on the CPU"},
      {"message_ranks", &config.message_ranks,
       "collectives of up to this many ranks run message by message, larger ones as equivalent "
       "flows",
       Range::positive},
      {"traced_ranks", &config.traced_ranks, "how many ranks, from rank 0 on, the trace shows",
       Range::not_negative},
      {"network_gbit_s", &config.network_gbit_s,
       "rate of each network card of the simulated cluster, in place of the one that the cluster "
       "file names; 0: as the cluster file says",
       Range::not_negative},
      {"queue_kb", &config.queue_kb,
       "what waits for each network card until packets are dropped, as in a traffic shaper, in "
       "place of the cluster file's; 0: so much that it does not matter; -1: as the cluster file "
       "says"},
      {"drops", &config.drops,
       "packets that short queues of network cards drop slow collectives down"},
      {"jitter", &config.jitter,
       "sigma of the log-normal factor by which each step of each device takes longer or shorter "
       "(mean 1, drawn with train.seed), in place of the cluster file's; 0: as the cluster file "
       "says",
       Range::not_negative},
      {"spread", &config.spread,
       "sigma of the log-normal factors by which devices are slower or faster than each other, in "
       "place of the cluster file's; 0: all are equal; -1: as the cluster file says"},
      {"device_share", &config.device_share,
       "share of a device's speed that its operations lose while a collective moves its data, in "
       "place of the cluster file's; 0: none; -1: as the cluster file says"},
      {"tuning", &config.tuning,
       "collectives of GPUs also take NCCL's trees between machines and its protocol LL, where "
       "these are faster and the cluster file says so; false: rings with the protocol Simple "
       "alone"},
      {"servers_apart", &config.servers_apart,
       "dedicated servers live on the machines of the cluster that have no worker; else on the "
       "machines of the workers"},
      {"framework", &config.framework,
       "also take the host time of this framework's scheme in every step (see `ringside list`)"},
      {"messages", &config.messages,
       "what messages between workers and servers cost their processors: as the cluster file says, "
       "or as those of this library do (see `ringside list`)"},
      {"decode", &config.decode,
       "samples are image files, which the machines' hosts decode as fast as the cluster file "
       "says"},
      {"intervals", &config.intervals,
       "compare: also simulate each case with the cluster as fast and as slow as the errors that "
       "its file states allow"}};
}

Fields fields_of(DeviceConfig& config) {
  return {
      {"kind", &config.kind, "which device (see `ringside list`)"},
      {"threads", &config.threads, "cpu: number of threads with which a rank computes",
       Range::positive},
      {"tf32", &config.tf32,
       "cuda, sim: multiply fp32 matrices on tensor cores (TF32), whose inputs have 10 bits of "
       "mantissa"},
      {"cluster", &config.cluster,
       "cluster file; for sim: the cluster to simulate; for other devices: this machine as "
       "`ringside calibrate` measured it, for predictions"},
      {"efficiency", &config.efficiency,
       "sim: factor on the speed of all operations of simulated devices, such as the one with "
       "which a known time of this model on one device comes out",
       Range::positive},
      {"unfused", &config.unfused,
       "sim: how many times as long norms and elementwise operations take as fused kernels do, "
       "where a framework runs each as many kernels that pass values through memory",
       Range::positive},
      {"peak_tflops", &config.peak_tflops,
       "what the device of one rank does at most in products of the precision that is trained "
       "in, in 10^12 operations a second, as its maker says: model FLOPs utilization is against "
       "that; 0: as the simulated cluster says, or as `ringside calibrate` measured",
       Range::not_negative},
      {"slow", &config.slow,
       "cpu: a number for each worker, by which its forward and backward take longer: the "
       "worker rests meanwhile; for trials with unequal workers",
       Range::positive},
      {"jitter", &config.jitter,
       "cpu: sigma of the log-normal factor by which each step of each worker takes longer, "
       "where the factor is above 1 (drawn with train.seed)",
       Range::not_negative}};
}

}  // namespace ringside
