#include "experiments/runner/registry/mpi_of.h"
#include "core/base/error.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

std::optional<InterHostBackend> mpi_of(const RunPlan& plan) {
  const bool moves =
      !plan.cluster && spans_hosts(plan) && find_device(plan.device.kind).hosts_library;
  if (!moves || plan.hosts.between == InterHostBackend::gloo) return {};
  return plan.hosts.between;
}

bool ends_with_ranks(InterHostBackend library) { return library != InterHostBackend::mpich; }

void check_libraries(const std::vector<RunPlan>& runs) {
  for (const RunPlan& run : runs) {
    if (run.sums.unknown_order && !spans_hosts(run))
      throw Error(
          "run {}: scheme.{}.algorithm = 'library' is for workers on several hosts, and these "
          "share one; leave the option or this world (--worlds) out, or spread workers over the "
          "hosts of a job (hosts.workers = 'spread')",
          run.id, run.scheme);
    const auto library = mpi_of(run);
    if (!library) continue;
    if (const std::string cause = peer::why_no_mpi(*library); !cause.empty())
      throw Error("hosts.between = '{}': {}", name_of(*library), cause);
    if (run.expendable > 0)
      throw Error(
          "run {}: it goes on when a worker is killed, but {} then ends all ranks; set "
          "hosts.between = 'gloo', or leave the scheme out (--schemes)",
          run.id, name_of(*library));
  }
}

std::string entered_mpi_key(int rank) { return fmt::format("mpi/entered/{}", rank); }

void enter_mpi(const RunPlan& plan, int rank, Store& store) {
  const auto library = mpi_of(plan);
  if (!library) return;
  peer::begin_mpi(*library);
  store.set(entered_mpi_key(rank), "");
}

void leave_mpi(const RunPlan& plan) {
  const auto library = mpi_of(plan);
  if (library && ends_with_ranks(*library)) peer::end_mpi(*library);
}

}  // namespace ringside::runner
