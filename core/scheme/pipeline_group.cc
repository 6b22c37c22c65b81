#include "core/scheme/pipeline_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/scheme/scalar_sum.h"

namespace ringside {
namespace {

std::unique_ptr<Communicator> along_pipeline(const RankContext& whole, const char* purpose) {
  const MeshPlace place = mesh_place(whole.plan, whole.self().worker);
  return whole.communicator({fmt::format("pipeline-{}-{}", place.data, purpose), place.pipeline,
                             static_cast<int>(whole.plan.mesh.pipeline)});
}

}  // namespace

PipelineGroup::PipelineGroup(const RankContext& whole,
                             std::shared_ptr<const pipeline::Schedule> schedule,
                             std::shared_ptr<const Borders> borders,
                             std::vector<std::int64_t> counts)
    : whole_(whole),
      schedule_(std::move(schedule)),
      borders_(std::move(borders)),
      counts_(std::move(counts)),
      forward_(along_pipeline(whole, "forward")),
      backward_(along_pipeline(whole, "backward")),
      tables_(along_pipeline(whole, "tables")) {
  for (std::size_t s = 1; s < schedule_->ranks_of.size(); ++s) {
    connect(*forward_, schedule_->ranks_of[s - 1], schedule_->ranks_of[s]);
    connect(*backward_, schedule_->ranks_of[s], schedule_->ranks_of[s - 1]);
  }
  if (whole.plan.pipeline.post_validation) make_validation();
}

void PipelineGroup::make_validation() {
  std::unique_ptr<Communicator> sums = along_pipeline(whole_, "validation");
  for (int r = 0; r + 1 < size(); ++r) connect(*sums, r, r + 1);
  for (int r = 0; r + 1 < size(); ++r) connect(*sums, size() - 1, r);
  validation_ = std::make_unique<PostValidation>(whole_, std::move(sums));
}

void PipelineGroup::connect(Communicator& communicator, int from, int to) {
  if (from == to || !whole_.device.runs_behind()) return;
  const Tensor one = whole_.device.tensor({1}, MemoryKind::communication);
  if (rank() == from) communicator.send(one, to)->wait();
  if (rank() == to) communicator.recv(one, from)->wait();
}

int PipelineGroup::stage_of_unit(std::size_t unit) const {
  const auto& cuts = whole_.plan.pipeline.cuts;
  return static_cast<int>(
      std::upper_bound(cuts.begin(), cuts.end(), static_cast<std::int64_t>(unit)) - cuts.begin());
}

void PipelineGroup::sum(std::span<double> values) {
  sum_over_ranks(whole_.device, *tables_, values, &whole_.timeline);
}

Traffic PipelineGroup::traffic() const {
  return forward_->traffic() + backward_->traffic() + tables_->traffic() +
         (validation_ ? validation_->traffic() : Traffic{});
}

}  // namespace ringside
