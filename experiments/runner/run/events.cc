#include "experiments/runner/run/events.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/json_fields.h"

namespace ringside::runner {
namespace {

using What = decltype(ProgressEvent::what);

/// Reads the event that has this name among the alternatives from number `i` on.
template <std::size_t i = 0>
std::optional<What> what_of(const std::string& name, const nlohmann::json& in) {
  if constexpr (i < std::variant_size_v<What>) {
    using Event = std::variant_alternative_t<i, What>;
    if (name == Event::name) return read_json<Event>(in);
    return what_of<i + 1>(name, in);
  } else {
    return {};
  }
}

std::optional<double> if_finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

Fields fields_of(PlannedRun& run) {
  return {{"run", &run.id},
          {"label", &run.label},
          {"purpose", &run.purpose},
          {"world", &run.world},
          {"repeat", &run.repeat},
          {"line", &run.line},
          {"steps", &run.steps},
          {"global_batch", &run.global_batch},
          {"simulated", &run.simulated}};
}

Fields fields_of(ComparisonBegan& event) {
  return {{"experiment", &event.experiment},
          {"most_attempts", &event.most_attempts},
          {"runs", Structs(&event.runs)}};
}

Fields fields_of(RunPredicted& event) {
  return {{"run", &event.run},
          {"step_ms", &event.step_ms},
          {"memory_peak", &event.memory_peak},
          {"error", &event.error}};
}

Fields fields_of(RunBegan& event) {
  return {{"run", &event.run}, {"attempt", &event.attempt}, {"seconds_left", &event.seconds_left}};
}

Fields fields_of(StepDone& event) {
  return {{"run", &event.run},
          {"step", &event.step},
          {"loss", &event.loss},
          {"step_ms", &event.step_ms},
          {"samples_per_s", &event.samples_per_s},
          {"seconds_left", &event.seconds_left}};
}

Fields fields_of(RunEnded& event) {
  return {{"run", &event.run},
          {"attempt", &event.attempt},
          {"kept", &event.kept},
          {"counts", &event.counts},
          {"made_again", &event.made_again},
          {"status", &event.status},
          {"error", &event.error},
          {"disturbance", &event.disturbance},
          {"samples_per_s", &event.samples_per_s},
          {"tokens_per_s", &event.tokens_per_s},
          {"step_ms", &event.step_ms},
          {"exposed_ms", &event.exposed_ms},
          {"loss", &event.loss},
          {"held_out_loss", &event.held_out_loss},
          {"memory_peak", &event.memory_peak},
          {"seconds_left", &event.seconds_left}};
}

Fields fields_of(ComparisonEnded& event) {
  return {{"status", &event.status},
          {"exit_status", &event.exit_status},
          {"error", &event.error},
          {"folder", &event.folder}};
}

PlannedRun planned_run(const RunPlan& plan) {
  return {.id = plan.id,
          .label = plan.listing.label,
          .purpose = plan.purpose,
          .world = plan.world,
          .repeat = plan.repeat,
          .line = plan.listing.line,
          .steps = plan.train.steps,
          .global_batch = plan.train.global_batch,
          .simulated = plan.cluster.has_value()};
}

RunEnded run_ended(const RunRecord& row) {
  RunEnded out{.run = row.plan.id,
               .attempt = row.attempt + 1,
               .status = row.status,
               .error = row.error,
               .disturbance = disturbance(row),
               .samples_per_s = row.samples_per_s,
               .tokens_per_s = row.tokens_per_s,
               .step_ms = row.step_ms.median,
               .exposed_ms = row.time_ms.exposed,
               .memory_peak = memory_peak(row)};
  if (!row.loss.empty()) out.loss = if_finite(row.loss.back());
  if (const auto& curve = held_out_curve(row); !curve.empty())
    out.held_out_loss = if_finite(curve.back().loss);
  return out;
}

std::string json_line(const ProgressEvent& event) {
  nlohmann::ordered_json out;
  std::visit(
      [&](const auto& what) {
        out["event"] = std::remove_cvref_t<decltype(what)>::name;
        out["time"] = std::round(event.time * 1000) / 1000;
        out.update(to_json(what));
      },
      event.what);
  // Text of ranks may be cut within a character.
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::optional<ProgressEvent> event_of_line(std::string_view line) {
  try {
    const auto in = nlohmann::json::parse(line);
    auto what = what_of(in.at("event").get<std::string>(), in);
    if (!what) return {};
    return ProgressEvent{in.at("time").get<double>(), *std::move(what)};
  } catch (const std::exception& error) {
    throw Error("not an event of a comparison ({})", error.what());
  }
}

}  // namespace ringside::runner
