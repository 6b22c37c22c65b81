# The choice whether the CUDA modules are built, and for which GPUs: their kernels take minutes to
# compile for each kind. From RINGSIDE_CUDA and the result of find_package(CUDAToolkit) sets
# RINGSIDE_BUILDS_CUDA and, unless it was chosen, CMAKE_CUDA_ARCHITECTURES.
set(RINGSIDE_BUILDS_CUDA OFF)
if(NOT RINGSIDE_CUDA STREQUAL AUTO AND NOT RINGSIDE_CUDA)
  return()
endif()
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
  if(NOT RINGSIDE_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "RINGSIDE_CUDA=${RINGSIDE_CUDA}, but there is no CUDA toolkit (12.8 or newer, "
                        "with nvcc on the PATH); install it, or leave RINGSIDE_CUDA out")
  endif()
  message(STATUS "No CUDA toolkit: device \"cuda\" is left out")
  return()
endif()

# This machine's GPUs by compute capability, in CMake's words: 90-real for 9.0. Those older than 8.0
# cannot run the kernels.
set(gpus)
find_program(NVIDIA_SMI nvidia-smi)
if(NVIDIA_SMI)
  execute_process(COMMAND ${NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capabilities ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
  foreach(capability ${capabilities})
    if(capability VERSION_GREATER_EQUAL 8.0)
      string(REPLACE "." "" capability ${capability})
      list(APPEND gpus ${capability}-real)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES gpus)
endif()

if(RINGSIDE_CUDA STREQUAL AUTO AND NOT gpus AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # scripts/setup shows messages that begin with "Left out".
  message(STATUS "Left out: device \"cuda\", as there is a CUDA toolkit but no GPU here; to build it all "
                 "the same: scripts/setup -DRINGSIDE_CUDA=ON")
  return()
endif()
set(RINGSIDE_BUILDS_CUDA ON)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(gpus)
    set(CMAKE_CUDA_ARCHITECTURES ${gpus})
  else() # code for these, and PTX for later ones
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 120)
  endif()
endif()
