# Drivers of other libraries, which `ringside bench comm --beside` measures next to ours, if the
# libraries are installed: Debian's packages libopenmpi-dev, libmpich-dev (with mpich) and
# libgloo-dev.
function(driver name source)
  add_executable(ringside_${name} experiments/tools/bench/reference_libraries/${source}.cc)
  target_link_libraries(ringside_${name} PRIVATE tools_bench_rank ${ARGN})
endfunction()

find_package(PkgConfig QUIET)
find_program(OPENMPI_LAUNCHER mpirun.openmpi)
find_program(MPICH_LAUNCHER mpiexec.mpich)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(OPENMPI QUIET IMPORTED_TARGET ompi-c)
  pkg_check_modules(MPICH QUIET IMPORTED_TARGET mpich)
endif()
foreach(library OPENMPI MPICH)
  if(${library}_FOUND AND ${library}_LAUNCHER)
    string(TOLOWER ${library} name)
    driver(${name} mpi PkgConfig::${library})
  endif()
endforeach()
# Only the functions of C are wanted.
foreach(target ringside_openmpi ringside_mpich)
  if(TARGET ${target})
    target_compile_definitions(${target} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  endif()
endforeach()

find_path(GLOO_INCLUDE gloo/allreduce.h)
find_library(GLOO_LIBRARY gloo)
if(GLOO_INCLUDE AND GLOO_LIBRARY)
  driver(gloo gloo ${GLOO_LIBRARY} Threads::Threads)
  target_include_directories(ringside_gloo SYSTEM PRIVATE ${GLOO_INCLUDE})
endif()
