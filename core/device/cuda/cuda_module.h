// The file name of the module that contains the CUDA device, and the names of the module's
// functions.
#pragma once

#include "core/device/cuda/cuda.h"

namespace ringside::cuda {

inline constexpr const char* module_name = "libringside_cuda.so";
inline constexpr const char* module_look = "ringside_cuda_look";
inline constexpr const char* module_make = "ringside_cuda_make";
using LookAtMachine = void(Machine& out);
using MakeDevice = void(const Options&, std::unique_ptr<CudaDevice>& out);

}  // namespace ringside::cuda
