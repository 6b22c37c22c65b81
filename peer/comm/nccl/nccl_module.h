// The module with NCCL: its name and its functions.
#pragma once

#include "core/base/module.h"
#include "core/device/cuda/cuda.h"
#include "peer/comm/nccl/communicator.h"

namespace ringside::peer {

struct NcclRequest {
  cuda::CudaDevice& device;
  Store& store;
  Group group;
  double timeout_s = 60;
};

struct NcclModule {
  std::string (*version)();
  std::unique_ptr<Communicator> (*make)(const NcclRequest& request);
};

inline const Module nccl_module{
    "libringside_nccl.so", "NCCL",
    "install the CUDA toolkit and NCCL (2.23 or newer) if they are missing, then run scripts/setup "
    "-DRINGSIDE_CUDA=ON"};

}  // namespace ringside::peer
