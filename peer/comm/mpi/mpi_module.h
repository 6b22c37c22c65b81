// The names of the modules that contain a library of MPI, and the functions in them.
#pragma once

#include "peer/comm/mpi/wire.h"

namespace ringside::peer {

inline constexpr const char* openmpi_module_name = "libringside_openmpi.so";
inline constexpr const char* mpich_module_name = "libringside_mpich.so";
inline constexpr const char* mpi_module_begin = "ringside_mpi_begin";
inline constexpr const char* mpi_module_make = "ringside_mpi_make";
inline constexpr const char* mpi_module_end = "ringside_mpi_end";

struct MpiRequest {
  Store& store;
  Group group;
  double timeout_s = 60;
};
using MakeMpi = void(const MpiRequest&, std::unique_ptr<Wire>& out);
using BeginMpi = void();
using EndMpi = void();

}  // namespace ringside::peer
