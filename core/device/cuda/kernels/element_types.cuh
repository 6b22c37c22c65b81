// Element types that kernels are compiled for.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace ringside::cuda {

/// The tensor's data, as a pointer to the type that CUDA uses for its elements.
template <class T>
T* data(const Tensor& tensor) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return reinterpret_cast<T*>(tensor.data<bf16>());
  else if constexpr (std::is_same_v<T, __half>)
    return reinterpret_cast<T*>(tensor.data<fp16>());
  else
    return tensor.data<T>();
}

/// Calls visit(std::type_identity<T>()), where T is CUDA's type for a floating-point dtype.
template <class Visit>
decltype(auto) with_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::f32:
      return visit(std::type_identity<float>());
    case DType::bf16:
      return visit(std::type_identity<__nv_bfloat16>());
    case DType::f16:
      return visit(std::type_identity<__half>());
    default:
      throw Error("GPUs compute in fp32, bf16 and fp16, not in {}", name_of(dtype));
  }
}

}  // namespace ringside::cuda
