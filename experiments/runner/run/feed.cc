#include "experiments/runner/run/feed.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/interchange/weights.h"
#include "core/optim/optimizer_config.h"
#include "core/plan/slices.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/rank_parts.h"

namespace ringside::runner {
namespace {

using Write = std::function<void(std::span<const std::byte>)>;

void write_message(const Write& write, nlohmann::ordered_json line,
                   const std::vector<std::byte>& bytes) {
  line["bytes"] = bytes.size();
  const std::string text = line.dump() + '\n';
  write(std::as_bytes(std::span(text)));
  write(bytes);
}

/// The weights with which the run starts, as a file of safetensors.
std::vector<std::byte> initial_file(const RunPlan& plan, const Model& model, Device& device) {
  std::shared_ptr<const InitialValues> initial = initial_weights(plan, model);
  if (!initial) initial = drawn_values(static_cast<std::uint64_t>(plan.train.seed));
  const DType dtype = parameter_dtype(plan.train);
  std::vector<std::byte> bytes;
  WeightsFile file(bytes, model, plan.model, dtype);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = *model.units[u];
    const Tensor values = device.tensor({unit.layout().count()}, MemoryKind::parameter, dtype);
    initial->write(unit, model.first_parameter(u), 0, values);
    file.add(unit, values);
  }
  file.finish(0);
  return bytes;
}

std::vector<std::byte> file_of(const Batch& batch, Device& device) {
  const auto described = [](const char* name, const Tensor& tensor) {
    SafetensorsWriter::Tensor out{
        .name = name, .dtype = tensor.dtype() == DType::i32 ? "I32" : "F32", .extents = {}};
    for (std::size_t axis = 0; axis < tensor.shape().rank(); ++axis)
      out.extents.push_back(tensor.shape()[axis]);
    return out;
  };
  std::vector<std::byte> bytes;
  SafetensorsWriter file(bytes,
                         {described("inputs", batch.inputs), described("targets", batch.targets)});
  std::vector<std::byte> values;
  std::size_t index = 0;
  for (const Tensor* tensor : {&batch.inputs, &batch.targets}) {
    values.resize(tensor->bytes());
    device.read(*tensor, values);
    file.write(index++, values);
  }
  file.finish();
  return bytes;
}

void refuse_lengths(const Dataset& data, const RunPlan& plan) {
  if (data.length(0))
    throw Error("data.kind = '{}': samples differ in length, which scheme {} does not support",
                plan.data.kind, plan.scheme);
}

}  // namespace

void feed(const RunPlan& plan, int rank, const Write& write) {
  const auto device = find_device("cpu").make(plan, rank, nullptr);
  const Model model = make_model(plan.model, *device);
  const Datasets data = find_dataset(plan.data.kind).make(plan.data, plan.model, model.task);
  refuse_lengths(*data.training, plan);
  const TrainConfig& train = plan.train;
  const auto seed = static_cast<std::uint64_t>(train.seed);
  const Loader training(*data.training, *device, train.global_batch, seed);
  std::optional<Loader> held_out;
  if (data.held_out && train.evaluate_every > 0)
    held_out.emplace(*data.held_out, *device, train.global_batch, seed);
  const std::int64_t evaluated =
      held_out ? std::min(train.evaluate_batches, held_out->batches()) : 0;

  RankRecord record;
  record.rank = rank;
  record.role = plan.ranks.at(static_cast<std::size_t>(rank)).role();
  record.parameters = model.parameter_count();
  note_run(record, plan, find_scheme(plan.scheme), model, training);
  write_message(write,
                {{"kind", "start"},
                 {"record", to_json(record)},
                 {"step", to_json(StepTime{})},
                 {"slice", to_json(Slice{})},
                 {"evaluated", evaluated}},
                initial_file(plan, model, *device));

  std::vector<int> workers = {plan.ranks[static_cast<std::size_t>(rank)].worker};
  if (in_one_process(plan)) {
    workers.clear();
    for (int worker = 0; worker < plan.world; ++worker) workers.push_back(worker);
  }
  const auto write_batch = [&](const Loader& loader, std::int64_t step,
                               const nlohmann::ordered_json& line) {
    for (std::int64_t m = 0; m < train.accumulation; ++m)
      for (const int worker : workers)
        write_message(write, line, file_of(loader.read(slice_of(plan, worker, step, m)), *device));
  };
  for (std::int64_t batch = 0; batch < evaluated; ++batch)
    write_batch(*held_out, batch, {{"kind", "held-out"}});
  const int replicas = std::max(plan.world, plan.defines);
  for (std::int64_t step = 0; step < train.steps; ++step)
    write_batch(training, step,
                {{"kind", "training"},
                 {"lr", learning_rate(plan.optimizer, step,
                                      {.steps = train.steps, .replicas = replicas})}});
}

}  // namespace ringside::runner
