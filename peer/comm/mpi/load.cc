#include "core/base/error.h"
#include "core/base/module.h"
#include "peer/comm/mpi/mpi_module.h"

namespace ringside::peer {
namespace {

template <class Function>
Function* load(InterHostBackend library, const char* symbol) {
  const bool open = library == InterHostBackend::openmpi;
  try {
    return reinterpret_cast<Function*>(
        module_symbol(open ? openmpi_module_name : mpich_module_name, symbol));
  } catch (const Error& error) {
    throw Error("{}: {}; install {} if they are missing, then run scripts/setup",
                open ? "Open MPI" : "MPICH", error.what(),
                open ? "the packages libopenmpi-dev and openmpi-bin"
                     : "the packages libmpich-dev and mpich");
  }
}

}  // namespace

std::unique_ptr<Wire> make_mpi_wire(InterHostBackend library, Store& store, const Group& group,
                                    double timeout_s) {
  std::unique_ptr<Wire> wire;
  (*load<MakeMpi>(library, mpi_module_make))({store, group, timeout_s}, wire);
  return wire;
}

void begin_mpi(InterHostBackend library) { (*load<BeginMpi>(library, mpi_module_begin))(); }

void end_mpi(InterHostBackend library) { (*load<EndMpi>(library, mpi_module_end))(); }

std::string why_no_mpi(InterHostBackend library) {
  try {
    load<MakeMpi>(library, mpi_module_make);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace ringside::peer
