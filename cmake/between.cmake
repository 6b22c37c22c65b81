# The modules with which ranks of several hosts reach each other, if their libraries are installed:
# see beside.cmake, which looks for these. Without them everything works on one host.
function(module_between name source)
  add_library(ringside_${name}_wire MODULE ${source})
  set_target_properties(ringside_${name}_wire PROPERTIES OUTPUT_NAME ringside_${name})
  target_link_libraries(ringside_${name}_wire PRIVATE peer_comm ${ARGN} Threads::Threads)
  if(NOT RINGSIDE_SANITIZE) # the program has the symbols of clang's sanitizers
    target_link_options(ringside_${name}_wire PRIVATE LINKER:-z,defs) # missing symbols are errors here
  endif()
endfunction()

if(RINGSIDE_GLOO AND GLOO_INCLUDE AND GLOO_LIBRARY)
  module_between(gloo peer/comm/gloo/module/wire.cc ${GLOO_LIBRARY})
  target_include_directories(ringside_gloo_wire SYSTEM PRIVATE ${GLOO_INCLUDE})
endif()
foreach(library OPENMPI MPICH)
  if(RINGSIDE_MPI AND ${library}_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/peer/comm/mpi/module/wire.cc)
    string(TOLOWER ${library} name)
    module_between(${name} peer/comm/mpi/module/wire.cc PkgConfig::${library})
    target_compile_definitions(ringside_${name}_wire PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  endif()
endforeach()
