#include "core/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/observe/machine_load.h"
#include "core/observe/parameter_digest.h"
#include "core/observe/process_memory.h"
#include "core/plan/slices.h"
#include "core/train/part_of_run.h"
#include "core/train/whole_model.h"

namespace ringside {
namespace {

/// The number of parameters that the host holds at a time while it hashes them.
constexpr std::int64_t hashed_at_once = 1 << 18;

}  // namespace

Trainer::Trainer(const RankContext& context, Model& model, SyncScheme& scheme,
                 const Loader& training, const Loader* held_out)
    : context_(context),
      model_(model),
      scheme_(scheme),
      training_(training),
      held_out_(held_out),
      loss_scale_(has_fp16_gradients(context.plan.train), context.plan.train.skip_not_finite),
      statistics_(context, model, scheme),
      checkpoints_(context, model, scheme, statistics_),
      faults_(whole_run(context).plan, whole_run(context).self().worker),
      passes_(context, model, scheme, faults_),
      comparison_(context, model, scheme),
      validation_(context, model, scheme, loss_scale_),
      first_not_finite_(context, model, passes_.outputs()) {
  if (context.pipeline) pipeline_.emplace(context, model, passes_);
}

Traffic Trainer::traffic() const {
  return context_.pipeline ? scheme_.traffic() + context_.pipeline->traffic() : scheme_.traffic();
}

RankRecord Trainer::run(const std::function<void(const Progress&)>& progress) {
  const TrainConfig& train = context_.plan.train;
  const Clock& clock = context_.device.clock();
  RankRecord record;
  scheme_.attach(model_);
  std::int64_t assignments = checkpoints_.restore(loss_scale_, record);
  const double start = clock.now();
  double host_before = 0;
  Traffic measured, counted = traffic();
  std::int64_t trained = 0;  // steps of this rank
  const auto next = [&] {
    checkpoints_.note_processes();
    return scheme_.next_assignment(assignments);
  };
  while (const std::optional<StepAssignment> assignment = next()) {
    if (assignment->saves_after > 0) {
      checkpoints_.save_at(*assignment, loss_scale_, record);
      continue;
    }
    ++assignments;
    const double begin = clock.now();
    std::optional<Progress> done;
    if (assignment->trains) {
      faults_.begin_step(assignment->step, scheme_, context_.device);
      const double processor_before = processor_seconds();
      if (context_.host && trained == train.warmup) host_before = context_.host->busy_s();
      const std::vector<double> losses = train_step(*assignment);
      if (trained >= train.warmup) {
        record.processor_s += processor_seconds() - processor_before;
        if (pipeline_) pipeline_->count_step();
      }
      if (context_.device.has_values()) add_losses(*assignment, losses, record);
      // A transfer that goes on between two steps is counted in the later one. None goes on when
      // the measured steps begin or end, or beside an evaluation (drains_after).
      const Traffic before = std::exchange(counted, traffic());
      if (trained >= train.warmup) measured = measured + (counted - before);
      ++trained;
      done = {assignment->step + 1,
              std::accumulate(losses.begin(), losses.end(), 0.0),
              clock.now() - begin,
              context_.timeline.settled(Activity::compute).value_or(0),
              {}};
    }
    if (assignment->evaluates && evaluated_after(assignment->step)) {
      const std::vector<LossValue> shares = evaluate(*assignment, record);
      counted = traffic();
      if (context_.device.has_values() && has_losses(context_)) {
        if (done)
          done->held_out =
              std::accumulate(shares.begin(), shares.end(), LossValue{},
                              [](LossValue sum, const LossValue& one) { return sum += one; });
        record.evaluations.push_back(
            {assignment->step + 1, assignment->first, shares, clock.now() - start});
      }
    }
    if (!done) continue;
    const bool saves = checkpoints_.saves_after(assignment->step);
    const auto asked = checkpoints_.asked(assignment->step);
    const bool leaves = asked == RunCheckpoints::Asked::leave;
    const bool stops = asked != RunCheckpoints::Asked::nothing && !leaves;
    if ((stops || leaves) && !saves) drain(assignment->step);
    if (comparison_.due_after(assignment->step, saves || stops)) {
      comparison_.compare(assignment->step + 1);
      counted = traffic();
    }
    if (saves || stops) checkpoints_.save(assignment->step, loss_scale_, record, asked);
    progress(*done);
    record.left = leaves || asked == RunCheckpoints::Asked::change;
    if (record.left) return record;
    if (stops) break;
  }
  scheme_.drain();  // a scheme may end the run after a step that did not drain
  statistics_.average({.micro_batches = train.accumulation});
  record.skipped_steps = loss_scale_.skipped();
  record.figures = scheme_.figures();
  std::erase_if(record.figures,
                [](const SchemeFigure& figure) { return !std::isfinite(figure.value); });
  const auto measured_steps =
      static_cast<double>(std::max<std::int64_t>(1, trained - train.warmup));
  record.bytes_sent_per_step = static_cast<double>(measured.sent) / measured_steps;
  record.bytes_received_per_step = static_cast<double>(measured.received) / measured_steps;
  record.bytes_computed = measured.computed;
  if (pipeline_) record.pipeline = pipeline_->record();
  if (context_.host)
    record.serving_optimizer_ms = 1e3 * (context_.host->busy_s() - host_before) / measured_steps;
  record.steps = context_.timeline.step_times();
  const std::int64_t first_traced = context_.timeline.first_kept_step();
  record.slices = context_.timeline.slices(first_traced);
  record.memory = context_.timeline.memory(first_traced);
  context_.timeline.trace(false);
  record.parameters = model_.whole_count();
  // Figures of memory are recorded before note_parameters(), which needs memory of its own, and
  // while the scheme still maps its memory.
  record.at_peak = context_.device.ledger().at_peak();
  if (record.pipeline)
    record.pipeline->most_activations = context_.device.ledger().most()[MemoryKind::activation];
  record.device_memory = context_.device.memory();
  if (context_.host) record.host_memory = {context_.host->device().ledger().at_peak()};
  if (context_.own_process) note_process_memory(record);
  note_parameters(record);
  checkpoints_.finish(record);
  return record;
}

bool Trainer::evaluated_after(std::int64_t step) const {
  return held_out_ && evaluates_after(context_.plan.train, step);
}

bool Trainer::drains_after(std::int64_t step) const {
  const TrainConfig& train = context_.plan.train;
  return step + 1 == train.warmup || step + 1 == train.steps || evaluated_after(step) ||
         checkpoints_.saves_after(step) || comparison_.due_after(step, false);
}

void Trainer::add_losses(const StepAssignment& assignment, const std::vector<double>& losses,
                         RankRecord& record) {
  const std::int64_t place = assignment.step * context_.plan.train.accumulation + assignment.first;
  const std::size_t before = record.losses.size();
  record.losses.insert(record.losses.end(), losses.begin(), losses.end());
  std::vector<std::int64_t>& places = record.loss_places;
  if (places.empty() && place == static_cast<std::int64_t>(before)) return;
  if (places.empty()) {
    places.resize(before);
    std::iota(places.begin(), places.end(), 0);
  }
  places.resize(record.losses.size());
  std::iota(places.begin() + static_cast<std::ptrdiff_t>(before), places.end(), place);
}

std::vector<double> Trainer::train_step(const StepAssignment& assignment) {
  const TrainConfig& train = context_.plan.train;
  const std::int64_t step = assignment.step;
  context_.timeline.trace(context_.traces(step));
  context_.timeline.begin_step();
  context_.device.begin_step(step);
  passes_.begin_step(step, loss_scale_.value(), training_);
  validation_.begin_step();
  const std::vector<Loss> losses = run_micro_batches(assignment);
  // Neither the calls above nor this one wait for the device, unless they have to wait for peers.
  const bool finite = validation_.update(step);
  if (drains_after(step)) drain(step);
  context_.device.synchronize();
  std::vector<double> values;
  for (const Loss& part : losses) values.push_back(value_of(context_.device, part).loss);
  const double loss = std::accumulate(values.begin(), values.end(), 0.0);
  context_.timeline.end_step();
  first_not_finite_.tell(step);
  const bool skipped = train.skip_not_finite > 0 && !finite;
  if (loss_scale_.exhausted() || (!std::isfinite(loss) && !skipped)) fail_not_finite(step, loss);
  for (double& value : values)
    if (!std::isfinite(value)) value = 0;
  return values;
}

std::vector<Loss> Trainer::run_micro_batches(const StepAssignment& assignment) {
  const TrainConfig& train = context_.plan.train;
  Pass pass{.step = assignment.step,
            .micro_batches = train.accumulation,
            .ranks = joined_micro_batches(context_.plan),
            .keep_attention = train.recompute != Recompute::attention,
            .seed = static_cast<std::uint64_t>(train.seed)};
  if (pipeline_)
    return pipeline_->train(pass, training_, [&] { return may_go_on(assignment.step); });
  std::vector<Loss> losses;
  const std::int64_t end = assignment.first + assignment.micro_batches;
  for (pass.micro_batch = assignment.first; pass.micro_batch < end; pass.micro_batch += pass.ranks)
    std::ranges::move(passes_.train(pass, training_), std::back_inserter(losses));
  return losses;
}

void Trainer::drain(std::int64_t step) {
  if (!validation_.validate() && loss_scale_.exhausted()) fail_not_finite(step, 0);
  scheme_.drain();
}

bool Trainer::may_go_on(std::int64_t step) {
  if (validation_.validate()) return true;
  if (loss_scale_.exhausted()) fail_not_finite(step - 1, 0);
  passes_.begin_step(step, loss_scale_.value(), training_);
  return false;
}

void Trainer::fail_not_finite(std::int64_t step, double loss) {
  const TrainConfig& train = context_.plan.train;
  const std::string before =
      train.skip_not_finite == 0
          ? ""
          : fmt::format(", and the {} before it {} skipped (train.skip_not_finite)",
                        counted(train.skip_not_finite, "step"),
                        train.skip_not_finite == 1 ? "was" : "were");
  if (std::isnan(loss)) loss = std::abs(loss);  // its sign says nothing
  if (!std::isfinite(loss) && (train.skip_not_finite > 0 || !loss_scale_.exhausted()))
    throw Error(
        "the loss is {} at step {}: {}{}; lower optimizer.lr or raise optimizer.warmup_steps", loss,
        step + 1, first_not_finite_.text(step), before);
  if (train.skip_not_finite > 0) {
    // A worker whose loss is not finite knows why, and leaves: wait for it, so that it speaks
    // first.
    double left = 0;
    sum_over_run(context_, scheme_, {&left, 1});
  }
  if (!has_fp16_gradients(train))
    throw Error(
        "gradients are not finite at step {}{}, although all losses are; lower optimizer.lr",
        step + 1, before);
  throw Error(
      "gradients are not finite at step {} although the loss scale is down to 1{}; lower "
      "optimizer.lr, or set {} = \"bf16\"",
      step + 1, before,
      parameter_dtype(train) == DType::f16 ? "train.precision" : "train.reduce_precision");
}

std::vector<LossValue> Trainer::evaluate(const StepAssignment& assignment, RankRecord& record) {
  const double begin = context_.device.clock().now();
  const Traffic before = traffic();
  std::vector<LossValue> shares = evaluate(assignment);
  record.evaluation_s += context_.device.clock().now() - begin;
  record.evaluation_bytes = record.evaluation_bytes + (traffic() - before);
  return shares;
}

std::vector<LossValue> Trainer::evaluate(const StepAssignment& assignment) {
  statistics_.average(assignment);
  const std::int64_t batches = std::min(context_.plan.train.evaluate_batches, held_out_->batches());
  if (pipeline_) pipeline_->begin_evaluation();
  std::vector<LossValue> shares(static_cast<std::size_t>(assignment.micro_batches));
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t m = 0; m < assignment.micro_batches; ++m) {
      Pass pass = evaluation;
      pass.step = assignment.step;
      pass.micro_batch = assignment.first + m;
      pass.micro_batches = context_.plan.train.accumulation;
      shares[static_cast<std::size_t>(m)] += pipeline_ ? pipeline_->evaluate(pass, b, *held_out_)
                                                       : passes_.evaluate(pass, b, *held_out_);
    }
  }
  if (pipeline_) pipeline_->end_evaluation();
  for (LossValue& share : shares) {
    if (!std::isfinite(share.loss))
      throw Error("the held-out loss is {} after step {}; lower optimizer.lr", share.loss,
                  assignment.step + 1);
    share.loss /= static_cast<double>(batches);
    share.first_term /= static_cast<double>(batches);
    share.accuracy /= static_cast<double>(batches);
  }
  return shares;
}

void Trainer::note_parameters(RankRecord& record) {
  std::map<int, ParameterDigest> digests;  // by replica
  std::vector<std::byte> host;
  // Without values there is nothing to hash, but the transfers in flight have to end.
  const auto add = [&](int replica, std::size_t, std::int64_t, const Tensor& values) {
    if (!context_.device.has_values()) return;
    ParameterDigest& digest =
        digests.try_emplace(replica, record.parameters, size_of(values.dtype())).first->second;
    for (std::int64_t begin = 0; begin < values.count(); begin += hashed_at_once) {
      const Tensor piece = values.range(begin, std::min(hashed_at_once, values.count() - begin));
      host.resize(piece.bytes());
      context_.device.read(piece, host);
      digest.add(host);
    }
  };
  visit_whole_model(context_, model_, scheme_, add);
  if (context_.device.has_values()) record.kept = kept_of_model();
  if (digests.empty()) return;
  record.first_replica = digests.begin()->first;
  for (const auto& [replica, digest] : digests) record.parameter_hashes.push_back(digest.whole());
  if (digests.size() == 1) record.parameter_blocks = digests.begin()->second.blocks();
}

std::vector<std::pair<std::int64_t, std::int64_t>> Trainer::kept_of_model() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (const auto& [begin, count] : scheme_.kept())
    for (const ModelStretch& stretch : in_whole_model(model_, begin, count))
      out.emplace_back(stretch.begin, stretch.count);
  return out;
}

Fields fields_of(Progress& progress) {
  return {{"step", &progress.step},
          {"loss", &progress.loss},
          {"seconds", &progress.seconds},
          {"compute_s", &progress.compute_s},
          {"held_out", Structs(&progress.held_out)}};
}

}  // namespace ringside
