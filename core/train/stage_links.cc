#include "core/train/stage_links.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/scheme/exposed.h"

namespace ringside {
namespace {

constexpr std::size_t index_of(Way way) { return static_cast<std::size_t>(way); }

/// The stage that gets what a stage makes.
constexpr int next_of(Way way, int stage) { return way == Way::forward ? stage + 1 : stage - 1; }
constexpr int previous_of(Way way, int stage) {
  return way == Way::forward ? stage - 1 : stage + 1;
}

/// Whether the value crosses its border in this direction.
bool crosses(Way way, const BorderValue& value) {
  return way == Way::forward || value.has_gradient;
}

Tensor& place_of(Way way, SideValues::Value& value) {
  return way == Way::forward ? value.value : value.gradient;
}

/// As long as backward needs a received value, it is an activation as any other.
MemoryKind kind_of(Way way, const BorderValue& value) {
  if (way == Way::backward) return MemoryKind::workspace;
  return value.dtype == DType::i32 ? MemoryKind::data : MemoryKind::activation;
}

}  // namespace

StageLinks::StageLinks(const RankContext& context) : context_(context), group_(*context.pipeline) {}

const std::vector<BorderValue>& StageLinks::border_out(Way way, int stage) const {
  return group_.borders()[static_cast<std::size_t>(way == Way::forward ? stage : stage - 1)];
}

const std::vector<BorderValue>& StageLinks::border_in(Way way, int stage) const {
  return group_.borders()[static_cast<std::size_t>(way == Way::forward ? stage - 1 : stage)];
}

int StageLinks::rank_of(int stage) const {
  return group_.schedule().ranks_of[static_cast<std::size_t>(stage)];
}

Communicator& StageLinks::communicator(Way way) const {
  return way == Way::forward ? group_.forward() : group_.backward();
}

std::string StageLinks::name(Way way, int stage, std::int64_t micro_batch) const {
  return fmt::format("{} of micro-batch {} from stage {}",
                     way == Way::forward ? "output" : "gradient", micro_batch, stage);
}

StageLinks::Waiting StageLinks::new_value(Way way, const BorderValue& value) const {
  const bool forward = way == Way::forward;
  const Shape& shape = forward ? value.shape : value.gradient_shape;
  const DType dtype = forward ? value.dtype : value.gradient_dtype;
  const MemoryKind kind = kind_of(way, value);
  Device& device = context_.device;
  // Set aside first, so that not even for a moment it seems to be held for a stage.
  SetAside aside(device.ledger(), kind, static_cast<std::size_t>(shape.count()) * size_of(dtype));
  return {std::move(aside), device.tensor(shape, kind, dtype)};
}

StageLinks::Waiting StageLinks::waiting(Tensor made) const {
  const auto& buffer = made.buffer();
  if (!buffer || buffer.use_count() > 1) return {SetAside(), std::move(made)};
  SetAside aside(context_.device.ledger(), buffer->kind(), buffer->bytes());
  return {std::move(aside), std::move(made)};
}

void StageLinks::put(Way way, int stage, std::int64_t micro_batch, Tensor made, SideValues& side) {
  Parcel& parcel = made_[index_of(way)][{stage, micro_batch}];
  for (const BorderValue& value : border_out(way, stage)) {
    if (!crosses(way, value)) continue;
    if (value.edge == BorderValue::output)
      parcel.values.push_back(waiting(std::move(made)));
    else if (way == Way::forward)
      parcel.values.push_back(waiting(side[value.edge].value));
    else
      parcel.values.push_back(waiting(std::exchange(side[value.edge].gradient, {})));
  }
}

void StageLinks::send(Way way, int stage, std::int64_t micro_batch) {
  Parcel parcel = std::move(made_[index_of(way)].extract({stage, micro_batch}).mapped());
  const int to = rank_of(next_of(way, stage));
  for (Waiting& value : parcel.values) {
    std::string what = name(way, stage, micro_batch);
    WorkPtr work = begin_traced(context_.timeline, what,
                                [&] { return communicator(way).send(value.value, to); });
    sent_.push_back({std::move(what), std::move(value), std::move(work)});
  }
}

void StageLinks::receive(Way way, int stage, std::int64_t micro_batch) {
  Parcel& parcel = needed_[index_of(way)][{stage, micro_batch}];
  const int from = rank_of(previous_of(way, stage));
  for (const BorderValue& value : border_in(way, stage)) {
    if (!crosses(way, value)) continue;
    parcel.values.push_back(new_value(way, value));
    parcel.works.push_back(communicator(way).recv(parcel.values.back().value, from));
  }
}

Tensor StageLinks::take(Way way, int stage, std::int64_t micro_batch, SideValues& side) {
  const int from = previous_of(way, stage);
  const bool here = rank_of(from) == rank_of(stage);
  auto& parcels = here ? made_[index_of(way)] : needed_[index_of(way)];
  auto found = parcels.extract({here ? from : stage, micro_batch});
  if (!found)
    throw Error("stage {} has not begun to receive the {}", stage, name(way, from, micro_batch));
  Parcel& parcel = found.mapped();
  for (WorkPtr& work : parcel.works)
    wait_exposed(context_.timeline, name(way, from, micro_batch), std::move(work));
  Tensor out;
  std::size_t at = 0;
  for (const BorderValue& value : border_in(way, stage)) {
    if (!crosses(way, value)) continue;
    Tensor& here_now = value.edge == BorderValue::output ? out : place_of(way, side[value.edge]);
    here_now = std::move(parcel.values[at++].value);
  }
  return out;
}

void StageLinks::let_go() {
  while (!sent_.empty() && sent_.front().work->ready()) finish_sends(sent_.size() - 1);
}

void StageLinks::drop() {
  for (auto& parcels : needed_) {
    for (auto& [key, parcel] : parcels)
      for (WorkPtr& work : parcel.works)
        if (work) wait_exposed(context_.timeline, "values that are dropped", std::move(work));
    parcels.clear();
  }
  for (auto& parcels : made_) parcels.clear();
  finish_sends();
}

void StageLinks::finish_sends(std::size_t left) {
  while (sent_.size() > left) {
    Sent& oldest = sent_.front();
    wait_exposed(context_.timeline, oldest.name, std::move(oldest.work));
    sent_.pop_front();
  }
}

}  // namespace ringside
