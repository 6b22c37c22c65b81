#include "peer/fsdp/mesh.h"

namespace ringside::peer {

Mesh::Mesh(const RankContext& context, int group, Algorithm algorithm)
    : group_(group), world_(context.communicator(all_workers(context, "fsdp", algorithm))) {
  const int workers = world_->size(), worker = world_->rank();
  if (workers == 1) return;
  if (group == workers) {
    within_ = world_.get();
  } else if (group == 1) {
    across_ = world_.get();
  } else {
    own_within_ = world_->split(worker / group, worker);
    own_across_ = world_->split(worker % group, worker);
    within_ = own_within_.get();
    across_ = own_across_.get();
  }
}

Traffic Mesh::traffic() const {
  Traffic sum = world_->traffic();
  for (const auto* part : {&own_within_, &own_across_})
    if (*part) sum = sum + (*part)->traffic();
  return sum;
}

}  // namespace ringside::peer
