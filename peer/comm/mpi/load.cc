#include "peer/comm/mpi/mpi_module.h"

namespace ringside::peer {
namespace {

const Module& module_of(InterHostBackend library) {
  return library == InterHostBackend::openmpi ? openmpi_module : mpich_module;
}

const MpiModule& load(InterHostBackend library) {
  return load_module<MpiModule>(module_of(library));
}

}  // namespace

std::unique_ptr<Wire> make_mpi_wire(InterHostBackend library, Store& store, const Group& group,
                                    double timeout_s) {
  return load(library).make({store, group, timeout_s});
}

void begin_mpi(InterHostBackend library) { load(library).begin(); }

void end_mpi(InterHostBackend library) { load(library).end(); }

std::string why_no_mpi(InterHostBackend library) { return why_no_module(module_of(library)); }

}  // namespace ringside::peer
