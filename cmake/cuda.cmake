# The modules that need the CUDA toolkit. Without them everything works but device "cuda", whose
# error says what to install.
find_package(CUDAToolkit 12.8 QUIET)
include(cmake/gpus.cmake)
if(NOT RINGSIDE_BUILDS_CUDA)
  return()
endif()
find_path(CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
# Headers alone: from its package for Python, or of one's own. scripts/setup fetches them where they
# are looked for here and are missing.
find_path(CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
          HINTS ${PROJECT_SOURCE_DIR}/build/cudnn-frontend/include PATH_SUFFIXES cudnn-frontend)

set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
enable_language(CUDA)
# CMake 3.25 and older do not know nvcc's option for C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra")
# fmt does not detect that nvcc supports constexpr, and then fails to compile.
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -DFMT_USE_CONSTEXPR=1")

file(GLOB sources CONFIGURE_DEPENDS core/device/cuda/module/*.cc core/device/cuda/runtime/*.cc
     core/device/cuda/kernels/*.cc core/device/cuda/kernels/*.cu)
if(CUDNN_INCLUDE AND CUDNN_LIBRARY AND CUDNN_FRONTEND_INCLUDE AND TARGET CUDA::nvrtc)
  list(FILTER sources EXCLUDE REGEX "_cudnn_absent\\.cc$")
  set(RINGSIDE_HAS_CUDNN ON)
else()
  message(STATUS "No cuDNN, or no headers of its frontend: attention and convolutions on GPUs are the plain ones")
  list(FILTER sources EXCLUDE REGEX "_cudnn\\.cc$")
endif()
add_library(ringside_cuda MODULE ${sources})
# cuBLAS, cuDNN and the CUDA runtime have a check of their own each.
set_target_properties(ringside_cuda PROPERTIES UNITY_BUILD OFF)
# Its C++ only launches what the GPU computes; with -O3 the headers of cuDNN's frontend take a minute.
target_compile_options(ringside_cuda PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
target_include_directories(ringside_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(ringside_cuda PRIVATE core_device CUDA::cudart CUDA::cublasLt)
target_link_options(ringside_cuda PRIVATE LINKER:-z,defs) # missing symbols are errors here
# CMake leaves the toolkit's folder out of the run path, because nvcc knows it by itself; the loader
# may not.
set_target_properties(ringside_cuda PROPERTIES BUILD_RPATH "${CUDAToolkit_LIBRARY_DIR}")
if(RINGSIDE_HAS_CUDNN)
  target_include_directories(ringside_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE} ${CUDNN_FRONTEND_INCLUDE})
  target_link_libraries(ringside_cuda PRIVATE ${CUDNN_LIBRARY} CUDA::nvrtc) # for its headers
  # Its headers carry a copy of nlohmann-json, which nothing here needs.
  set_source_files_properties(core/device/cuda/kernels/attention_cudnn.cc
                              core/device/cuda/kernels/convolution_cudnn.cc PROPERTIES
                              COMPILE_DEFINITIONS CUDNN_FRONTEND_SKIP_JSON_LIB)
endif()
# Flat operations: as on the CPU, the bits of an element must not depend on where it stands.
foreach(file flat optimizer dropout lamb quantise)
  set_source_files_properties(core/device/cuda/kernels/${file}.cu PROPERTIES COMPILE_OPTIONS
                              -fmad=false)
endforeach()

if(NCCL_INCLUDE AND NCCL_LIBRARY)
  file(GLOB sources CONFIGURE_DEPENDS peer/comm/nccl/module/*.cc)
  add_library(ringside_nccl MODULE ${sources})
  target_include_directories(ringside_nccl SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE})
  target_link_libraries(ringside_nccl PRIVATE peer_comm core_device_cuda CUDA::cudart ${NCCL_LIBRARY})
  set_target_properties(ringside_nccl PROPERTIES BUILD_RPATH "${CUDAToolkit_LIBRARY_DIR}")
else()
  message(STATUS "No NCCL: ranks on GPUs have no peers")
endif()
