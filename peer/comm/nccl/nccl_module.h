// The name of the module that contains NCCL, and the functions in it.
#pragma once

#include "core/device/cuda/cuda.h"
#include "peer/comm/nccl/communicator.h"

namespace ringside::peer {

inline constexpr const char* nccl_module_name = "libringside_nccl.so";
inline constexpr const char* nccl_module_version = "ringside_nccl_version";
inline constexpr const char* nccl_module_make = "ringside_nccl_make";

struct NcclRequest {
  cuda::CudaDevice& device;
  Store& store;
  Group group;
  double timeout_s = 60;
};
using NcclVersion = void(std::string& out);
using MakeNccl = void(const NcclRequest&, std::unique_ptr<Communicator>& out);

}  // namespace ringside::peer
