// A small cluster with round figures.
#pragma once

#include "core/device/cost.h"
#include "core/sim/cluster.h"

namespace ringside::tools::check {

/// A cluster of one machine. It has `devices` GPUs of 1 TFLOP/s and 100 GB/s behind one switch,
/// with 10 GB/s for each port; every operation reaches half of the roofline.
inline sim::ClusterSpec small_cluster(std::int64_t devices) {
  sim::ClusterSpec cluster;
  cluster.name = "small";
  cluster.devices = devices;
  cluster.device.name = "gpu";
  cluster.device.memory_gb = 16;
  cluster.device.bandwidth_gbs = 100;
  cluster.device.launch_us = 2;
  for (const char* dtype : {"fp32", "bf16"}) {
    cluster.device.tflops[dtype] = 1;
    for (std::size_t i = 0; i < op_classes; ++i)
      cluster.device.efficiency[dtype][std::string(name_of(static_cast<OpClass>(i)))].points = {
          {1, 0.5}};
  }
  cluster.host = cluster.device;
  cluster.host.name = "host";
  cluster.host.kind = sim::DeviceKind::cpu;
  cluster.host.cores = 8;
  cluster.topology = sim::Topology::nvlink_switch;
  cluster.peer = {.gbs = 10, .latency_us = 1, .step_us = 3};
  cluster.pcie = {.gbs = 8, .latency_us = 1, .step_us = 5};
  cluster.nic = {.gbs = 1, .latency_us = 5, .step_us = 10};
  cluster.collective.base_us = 8;
  cluster.message = {.send_us = 5, .receive_us = 5, .send_us_per_mb = 20, .receive_us_per_mb = 20};
  return cluster;
}

}  // namespace ringside::tools::check
