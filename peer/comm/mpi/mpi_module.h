// The modules with a library of MPI: their names and their functions.
#pragma once

#include "core/base/module.h"
#include "peer/comm/mpi/wire.h"

namespace ringside::peer {

struct MpiRequest {
  Store& store;
  Group group;
  double timeout_s = 60;
};

struct MpiModule {
  void (*begin)();
  std::unique_ptr<Wire> (*make)(const MpiRequest& request);
  void (*end)();
};

inline const Module openmpi_module{"libringside_openmpi.so", "Open MPI",
                                   "install the packages libopenmpi-dev and openmpi-bin if they "
                                   "are missing, then run scripts/setup"};
inline const Module mpich_module{"libringside_mpich.so", "MPICH",
                                 "install the packages libmpich-dev and mpich if they are "
                                 "missing, then run scripts/setup"};

}  // namespace ringside::peer
