#include "core/train/run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/seconds_now.h"
#include "core/base/whole_file.h"

namespace ringside {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// The name of the running statistics of batch norms; their replica is the number of the
/// micro-batch of the step, over all ranks.
constexpr const char* statistics_state = "batch_norm_statistics";
/// The longest time for which worker 0 awaits the parts of other ranks, besides train.timeout_s.
constexpr double longest_write_s = 600;

std::string part_key(std::int64_t done, int worker) {
  return fmt::format("checkpoint/{}/{}", done, worker);
}

/// The losses of a rank, for the record of a run that goes on: of its micro-batches in order.
ordered_json losses_of(const RankRecord& record, int worker) {
  ordered_json out = {{"worker", worker}, {"losses", record.losses}};
  for (const RankRecord::Evaluation& one : record.evaluations)
    out["evaluations"].push_back(to_json(one));
  return out;
}

/// What the ranks of a run have of every step, moved from so many ranks to another number of them:
/// `each_from` values of a step for each rank, and `each` for this one, worker `worker`.
template <class Value>
std::vector<Value> own_part(const std::vector<std::vector<Value>>& ranks, std::size_t each_from,
                            std::size_t each, std::size_t worker) {
  std::vector<Value> out;
  const std::size_t steps = ranks.empty() ? 0 : ranks[0].size() / each_from;
  for (std::size_t s = 0; s < steps; ++s)
    for (std::size_t m = worker * each; m < (worker + 1) * each; ++m)
      out.push_back(ranks[m / each_from][s * each_from + m % each_from]);
  return out;
}

std::int64_t micro_batches_of_step(const RunPlan& plan) {
  return plan.world * plan.train.accumulation;
}

}  // namespace

struct RunCheckpoints::Snapshot {
  std::int64_t done = 0;  // steps
  double taken_at = 0;    // on the host's clock
  std::vector<HostRange> ranges;
  ordered_json loss_scale, losses;
};

RunCheckpoints::RunCheckpoints(const RankContext& context, const Model& model, SyncScheme& scheme)
    : context_(context), model_(model), scheme_(scheme) {}

RunCheckpoints::~RunCheckpoints() { wait(); }

bool RunCheckpoints::saves_after(std::int64_t step) const {
  const RunPlan& plan = context_.plan;
  return !plan.checkpoint.path.empty() &&
         checkpoints_after(plan.checkpoint, step + 1, plan.train.steps);
}

bool RunCheckpoints::asked_to_stop() {
  if (context_.plan.checkpoint.path.empty()) return false;
  double asked = context_.store.try_get(stop_key) ? 1 : 0;
  scheme_.sum({&asked, 1});
  return asked > 0;
}

void RunCheckpoints::wait() {
  if (writer_.joinable()) writer_.join();
}

/// Copies this rank's part of the range.
void RunCheckpoints::take(const StateRange& range, std::vector<HostRange>& out) const {
  const std::int64_t count = range.values.count();
  const std::int64_t first = count * range.holder / range.holders,
                     end = count * (range.holder + 1) / range.holders;
  if (end == first) return;
  HostRange& own = out.emplace_back();
  own.key = {range.name, range.replica};
  own.begin = range.begin + first;
  own.values.resize(static_cast<std::size_t>(end - first));
  range.device->read(range.values.range(first, end - first),
                     std::as_writable_bytes(std::span(own.values)));
}

void RunCheckpoints::take_statistics(std::vector<HostRange>& out) const {
  const std::int64_t first = context_.self().worker * context_.plan.train.accumulation;
  for (std::int64_t m = 0; m < context_.plan.train.accumulation; ++m) {
    HostRange own{.key = {statistics_state, first + m}, .begin = 0, .values = {}};
    for (const auto& unit : model_.units)
      for (const Unit::Statistic& statistic : unit->statistics()) {
        const Tensor& from = m == 0 || statistic.later.empty()
                                 ? statistic.values
                                 : statistic.later[static_cast<std::size_t>(m - 1)];
        std::vector<float> values(static_cast<std::size_t>(from.count()));
        context_.device.read(from, std::as_writable_bytes(std::span(values)));
        own.values.insert(own.values.end(), values.begin(), values.end());
      }
    if (!own.values.empty()) out.push_back(std::move(own));
  }
}

void RunCheckpoints::save(std::int64_t step, const LossScale& loss_scale,
                          const RankRecord& record) {
  const double begin = seconds_now();
  wait();
  if (!snapshot_) snapshot_ = std::make_unique<Snapshot>();
  Snapshot& to = *snapshot_;
  to.done = step + 1;
  to.ranges.clear();
  scheme_.visit_state([&](const StateRange& range) { take(range, to.ranges); });
  take_statistics(to.ranges);
  const LossScale::State scale = loss_scale.state();
  to.loss_scale = {{"value", scale.value}, {"good_steps", scale.good}, {"skipped", scale.skipped}};
  to.losses = losses_of(record, context_.self().worker);
  to.taken_at = seconds_now();
  writer_ = std::thread([this] { write(*snapshot_); });
  if (!context_.plan.checkpoint.asynchronous) wait();
  cost_.stall_s += seconds_now() - begin;
}

/// Runs beside training.
void RunCheckpoints::write(const Snapshot& snapshot) {
  const int worker = context_.self().worker;
  ordered_json part = {{"losses", snapshot.losses}};
  try {
    const OpenFolder folder(context_.plan.checkpoint.path);
    const OpenFolder checkpoint = folder.inside(checkpoint_name(snapshot.done));
    const CheckpointFile file = write_rank_file(checkpoint, context_.rank, snapshot.ranges);
    cost_.bytes = file.bytes;
    part["file"] = to_json(file);
    context_.store.set(part_key(snapshot.done, worker), part.dump());
    if (worker == 0) write_manifest_of(snapshot, folder);
    ++cost_.written;
    cost_.write_s += seconds_now() - snapshot.taken_at;
  } catch (const std::exception& error) {
    cost_.failure = fmt::format("after step {}: {}", snapshot.done, error.what());
    try {
      if (!part.contains("file")) {
        part["failure"] = error.what();
        context_.store.set(part_key(snapshot.done, worker), part.dump());
      }
    } catch (const std::exception&) {
      // The run ends, and with it the store.
    }
  }
}

void RunCheckpoints::write_manifest_of(const Snapshot& snapshot, const OpenFolder& folder) {
  const RunPlan& plan = context_.plan;
  Manifest manifest;
  manifest.step = snapshot.done;
  manifest.parameters = model_.parameter_count();
  manifest.program = context_.program;
  manifest.run = to_json(plan);
  manifest.scalars = {{"loss_scale", snapshot.loss_scale}};
  for (int w = 0; w < plan.world; ++w) {
    const json part = json::parse(
        context_.store.get(part_key(snapshot.done, w), plan.train.timeout_s + longest_write_s));
    if (part.contains("failure"))
      throw Error("worker {}: {}", w, part.at("failure").get<std::string>());
    manifest.files.push_back(checkpoint_file_from_json(part.at("file")));
    manifest.scalars["losses"].emplace_back(part.at("losses"));
  }
  write_manifest(folder.inside(checkpoint_name(snapshot.done)), manifest);
  remove_old_checkpoints(folder, plan.checkpoint.keep);
}

std::int64_t RunCheckpoints::restore(LossScale& loss_scale, RankRecord& record) {
  const RunPlan& plan = context_.plan;
  if (plan.resume.empty()) return 0;
  const Checkpoint from(plan.resume);
  const Manifest& manifest = from.manifest();
  if (manifest.parameters != model_.parameter_count())
    throw Error("{}: its model has {} parameters, but this one has {}", plan.resume,
                manifest.parameters, model_.parameter_count());
  std::vector<float> host;
  scheme_.visit_state([&](const StateRange& range) {
    host.resize(static_cast<std::size_t>(range.values.count()));
    from.read({range.name, range.replica}, range.begin, host);
    range.device->write(range.values, std::as_bytes(std::span(host)));
  });
  restore_statistics(from);
  const json scalars = manifest.scalars;
  const json& scale = scalars.at("loss_scale");
  loss_scale.restore({scale.at("value").get<float>(), scale.at("good_steps").get<std::int64_t>(),
                      scale.at("skipped").get<std::int64_t>()});
  scheme_.restored(loss_scale.skipped());

  const json& losses = scalars.at("losses");
  const auto each_from = manifest.run.at("train").at("accumulation").get<std::int64_t>();
  cost_.resumed_after = manifest.step;
  const std::int64_t each = plan.train.accumulation;
  if (static_cast<std::int64_t>(losses.size()) * each_from != micro_batches_of_step(plan))
    return manifest.step;  // its micro-batches are others, and so are their losses
  std::vector<std::vector<double>> values;
  std::map<std::int64_t, std::vector<std::vector<LossValue>>> shares;
  std::map<std::int64_t, double> seconds;
  for (const json& rank : losses) {
    values.push_back(rank.at("losses").get<std::vector<double>>());
    for (const json& one : rank.value("evaluations", json::array())) {
      const auto evaluation = read_json<RankRecord::Evaluation>(one);
      shares[evaluation.step].push_back(evaluation.shares);
      seconds[evaluation.step] = evaluation.seconds;
    }
  }
  const auto worker = static_cast<std::size_t>(context_.self().worker);
  record.losses =
      own_part(values, static_cast<std::size_t>(each_from), static_cast<std::size_t>(each), worker);
  for (const auto& [step, ranks] : shares)
    record.evaluations.push_back({step, 0,
                                  own_part(ranks, static_cast<std::size_t>(each_from),
                                           static_cast<std::size_t>(each), worker),
                                  seconds[step]});
  return manifest.step;
}

void RunCheckpoints::restore_statistics(const Checkpoint& from) {
  const RunPlan& plan = context_.plan;
  std::int64_t count = 0;
  for (const auto& unit : model_.units)
    for (const Unit::Statistic& statistic : unit->statistics()) count += statistic.values.count();
  if (count == 0) return;
  const std::map<StateKey, std::int64_t> state = from.state();
  const auto saved = std::ranges::count_if(
      state, [](const auto& one) { return one.first.name == statistics_state; });
  if (saved != micro_batches_of_step(plan))
    throw Error(
        "{}: steps had {} micro-batches, each with running statistics of its own, but now they "
        "have {}; set train.micro_batch so that they have as many",
        plan.resume, saved, micro_batches_of_step(plan));
  const std::int64_t first = context_.self().worker * plan.train.accumulation;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t m = 0; m < plan.train.accumulation; ++m) {
    from.read({statistics_state, first + m}, 0, values);
    std::size_t at = 0;
    for (const auto& unit : model_.units)
      for (std::size_t s = 0; s < unit->statistics().size(); ++s) {
        Unit::Statistic& statistic = unit->statistic(s);
        while (static_cast<std::int64_t>(statistic.later.size()) < m)
          statistic.later.push_back(
              context_.device.tensor(statistic.values.shape(), MemoryKind::parameter));
        const Tensor& to =
            m == 0 ? statistic.values : statistic.later[static_cast<std::size_t>(m - 1)];
        const auto own = static_cast<std::size_t>(to.count());
        context_.device.write(to, std::as_bytes(std::span(values).subspan(at, own)));
        at += own;
      }
  }
}

void RunCheckpoints::finish(RankRecord& record) {
  const double begin = seconds_now();
  wait();
  cost_.stall_s += seconds_now() - begin;
  if (!context_.plan.checkpoint.path.empty() || cost_.resumed_after > 0) record.checkpoints = cost_;
}

}  // namespace ringside
