// How a summary is written: JSON, tables, lines.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "experiments/report.h"

namespace ringside {
namespace {

using nlohmann::ordered_json;
using Line = std::vector<std::string>;

/// A Markdown table with aligned columns: the first to the left, the others to the right, the
/// last, which may be long, to the left.
std::string table(const std::vector<Line>& lines, std::size_t widest_last) {
  const std::size_t columns = lines[0].size();
  std::vector<std::size_t> width(columns, 3);
  for (const Line& line : lines)
    for (std::size_t c = 0; c < columns; ++c)
      if (c + 1 < columns || line[c].size() <= widest_last)
        width[c] = std::max(width[c], line[c].size());
  const auto to_left = [&](std::size_t c) { return c == 0 || c + 1 == columns; };
  std::string out;
  for (std::size_t l = 0; l < lines.size(); ++l) {
    for (std::size_t c = 0; c < columns; ++c)
      out += to_left(c) ? fmt::format("| {:<{}} ", lines[l][c], width[c])
                        : fmt::format("| {:>{}} ", lines[l][c], width[c]);
    out += "|\n";
    if (l > 0) continue;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string rule(width[c] + 1, '-');
      out += to_left(c) ? "|" + rule + "-" : "|" + rule + ":";
    }
    out += "|\n";
  }
  return out;
}

std::string megabytes(double bytes) {
  return fmt::format("{:.{}f}", bytes / 1e6, bytes < 1e8 ? 2 : 0);
}

/// Without the sign of what rounds to 0.
std::string milliseconds(double value) {
  return fmt::format("{:.1f}", std::abs(value) < 0.05 ? 0.0 : value);
}

std::string per_second(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 2 : 1); }

std::string known(double value, std::string_view unit, int digits) {
  return value < 0 ? "-" : fmt::format("{:.{}f}{}", value, digits, unit);
}

/// A cause on one line that does not break a table.
std::string cell(std::string text) {
  std::replace(text.begin(), text.end(), '|', '/');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string verdict(const CaseSummary& one) {
  if (one.failed == one.repeats) return "FAILED: " + cell(one.error);
  std::string out(name_of(one.sameness));
  if (one.sameness == Sameness::to_rounding || one.sameness == Sameness::different)
    out += fmt::format(" ({:.0e})", one.difference);
  if (one.sameness == Sameness::not_computed && one.promise == Promise::own_algorithm)
    out += "; " + std::string(name_of(Sameness::own_algorithm));
  if (one.shared_device) out += "; shared GPU: not a performance figure";
  if (one.failed > 0)
    out += fmt::format("; {} of {} repeats FAILED: {}", one.failed, one.repeats, cell(one.error));
  return out;
}

bool predicted(const std::vector<CaseSummary>& cases) {
  return std::any_of(cases.begin(), cases.end(),
                     [](const CaseSummary& one) { return one.predicted_ms >= 0; });
}

/// "64.2 (-3%)": what was predicted, and how far it is from what was measured.
std::string prediction(double value, double scale, double error) {
  return value < 0 ? "-"
                   : fmt::format("{:.1f} ({:+.{}f}%)", value * scale, 100 * error,
                                 std::abs(error) < 0.095 ? 1 : 0);
}

bool computed(const CaseSummary& one) { return one.sameness != Sameness::not_computed; }

std::string figures_table(const std::vector<CaseSummary>& cases) {
  const bool with_predictions = predicted(cases);
  std::vector<Line> lines = {
      {"scheme", "world", "procs", "samples/s", "speed-up", "eff.", "step ms"}};
  if (with_predictions) lines[0].emplace_back("predicted");
  for (const char* name : {"compute", "exposed", "optim.", "other", "MB sent", "least", "peak MB",
                           "loss", "same run?"})
    lines[0].emplace_back(name);
  for (const CaseSummary& one : cases) {
    Line line = {one.label, std::to_string(one.world), std::to_string(one.processes)};
    if (one.failed == one.repeats) {
      line.insert(line.end(), lines[0].size() - line.size() - 1, "-");
    } else {
      line.insert(line.end(),
                  {fmt::format("{} ±{:2.0f}%", per_second(one.samples_per_s), 100 * one.spread),
                   known(one.speed_up, "", 2), known(100 * one.efficiency, "%", 0),
                   milliseconds(one.step_ms)});
      if (with_predictions) line.push_back(prediction(one.predicted_ms, 1, one.predicted_ms_error));
      line.insert(line.end(), {milliseconds(one.compute_ms), milliseconds(one.exposed_ms),
                               milliseconds(one.optimizer_ms), milliseconds(one.other_ms),
                               fmt::format("{}{}", one.bytes_computed ? "~" : "",
                                           megabytes(one.bytes_sent_per_step)),
                               megabytes(one.bytes_minimum_per_step),
                               megabytes(static_cast<double>(one.at_peak.total())),
                               computed(one) ? fmt::format("{:.4f}", one.final_loss) : "-"});
    }
    line.push_back(verdict(one));
    lines.push_back(std::move(line));
  }
  return table(lines, 20);
}

bool has_device_memory(const std::vector<CaseSummary>& cases) {
  return std::any_of(cases.begin(), cases.end(),
                     [](const CaseSummary& one) { return one.device_memory.has_value(); });
}

std::string device_bytes(const CaseSummary& one, std::int64_t DeviceMemory::*figure) {
  return one.device_memory ? megabytes(static_cast<double>((*one.device_memory).*figure)) : "-";
}

std::string memory_table(const std::vector<CaseSummary>& cases) {
  std::vector<Line> lines = {{"peak memory, MB", "world", "rank", "total"}};
  for (std::size_t k = 0; k < memory_kinds; ++k)
    lines[0].emplace_back(name_of(static_cast<MemoryKind>(k)));
  lines[0].emplace_back("resident");
  const bool with_device = has_device_memory(cases);
  if (with_device) lines[0].insert(lines[0].end(), {"reserved", "outside"});
  const bool with_predictions = predicted(cases);
  if (with_predictions) lines[0].emplace_back("predicted");
  for (const CaseSummary& one : cases) {
    if (one.failed == one.repeats) continue;
    Line line = {one.label, std::to_string(one.world), std::to_string(one.largest_rank),
                 megabytes(static_cast<double>(one.at_peak.total()))};
    for (std::size_t k = 0; k < memory_kinds; ++k)
      line.push_back(megabytes(static_cast<double>(one.at_peak[static_cast<MemoryKind>(k)])));
    line.push_back(one.cluster.empty() ? megabytes(static_cast<double>(one.resident)) : "-");
    if (with_device)
      line.insert(line.end(), {device_bytes(one, &DeviceMemory::reserved),
                               device_bytes(one, &DeviceMemory::outside)});
    if (with_predictions)
      line.push_back(prediction(one.predicted_peak, 1e-6, one.predicted_peak_error));
    lines.push_back(std::move(line));
  }
  return lines.size() > 1 ? table(lines, 20) : "";
}

/// Empty where nothing was evaluated.
std::string evaluation_table(const std::vector<CaseSummary>& cases) {
  std::vector<Line> lines = {{"held out", "world", "loss", "perplexity", "accuracy", "after step"}};
  for (const CaseSummary& one : cases)
    if (one.held_out)
      lines.push_back({one.label, std::to_string(one.world),
                       fmt::format("{:.4f}", one.held_out->loss),
                       one.perplexity ? fmt::format("{:.4g}", *one.perplexity) : "-",
                       fmt::format("{:.2f}%", 100 * one.held_out->accuracy),
                       std::to_string(one.held_out->step)});
  return lines.size() > 1 ? table(lines, 20) : "";
}

bool single_was_compared(const std::vector<CaseSummary>& cases) {
  return std::any_of(cases.begin(), cases.end(), [](const CaseSummary& one) {
    return one.scheme == "single" && !one.only_reference;
  });
}

ordered_json or_null(double value) { return value < 0 ? ordered_json() : ordered_json(value); }

ordered_json prediction_json(const CaseSummary& one) {
  if (one.predicted_ms < 0) return nullptr;
  return {{"step_ms", one.predicted_ms},
          {"step_ms_error", one.predicted_ms_error},
          {"memory_peak", one.predicted_peak},
          {"memory_peak_error", one.predicted_peak_error}};
}

ordered_json case_json(const CaseSummary& one) {
  ordered_json kinds = ordered_json::object();
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    kinds[std::string(name_of(kind))] = one.at_peak[kind];
  }
  const bool compared =
      one.sameness == Sameness::to_rounding || one.sameness == Sameness::different;
  return {
      {"scheme", one.scheme},
      {"label", one.label},
      {"promise", name_of(one.promise)},
      {"device", one.device},
      {"shared_device", one.shared_device},
      {"cluster", one.cluster.empty() ? ordered_json() : ordered_json(one.cluster)},
      {"world", one.world},
      {"processes", one.processes},
      {"only_reference", one.only_reference},
      {"repeats", one.repeats},
      {"failed", one.failed},
      {"error", one.error},
      {"samples_per_s", one.samples_per_s},
      {"spread", one.spread},
      {"speed_up", or_null(one.speed_up)},
      {"efficiency", or_null(one.efficiency)},
      {"step_ms", one.step_ms},
      {"predicted", prediction_json(one)},
      {"time_ms",
       {{"compute", one.compute_ms},
        {"exposed", one.exposed_ms},
        {"optimizer", one.optimizer_ms},
        {"data", one.data_ms},
        {"idle", one.idle_ms},
        {"other", one.other_ms}}},
      {"bytes_sent_per_step", one.bytes_sent_per_step},
      {"bytes_computed", one.bytes_computed},
      {"bytes_minimum_per_step", one.bytes_minimum_per_step},
      {"memory",
       {{"rank", one.largest_rank},
        {"peak", one.at_peak.total()},
        {"at_peak", kinds},
        {"resident", one.resident},
        {"device", to_json(one.device_memory)}}},
      {"final_loss", one.final_loss},
      {"held_out_loss", one.held_out ? ordered_json(one.held_out->loss) : ordered_json()},
      {"held_out_accuracy", one.held_out ? ordered_json(one.held_out->accuracy) : ordered_json()},
      {"same_run", name_of(one.sameness)},
      {"largest_difference",
       compared && std::isfinite(one.difference) ? ordered_json(one.difference) : ordered_json()}};
}

/// Nothing for a simulated rank.
std::string resident_text(const RankRecord& rank) {
  if (rank.rss == 0) return "";
  return fmt::format(", resident {} MB",
                     megabytes(static_cast<double>(rank.rss - rank.rss_of_peers)));
}

}  // namespace

ordered_json summary_json(const std::string& experiment, const std::vector<CaseSummary>& cases) {
  ordered_json rows = ordered_json::array();
  for (const CaseSummary& one : cases) rows.push_back(case_json(one));
  return {{"schema", Row::schema}, {"experiment", experiment}, {"cases", rows}};
}

std::string summary_text(const std::vector<CaseSummary>& cases) {
  std::string out;
  if (!cases.empty() && !cases[0].cluster.empty())
    out += fmt::format("SIMULATED on cluster {}: virtual time; nothing here was measured.\n\n",
                       cases[0].cluster);
  out += figures_table(cases);
  out +=
      "\nMedians over repeats, ± half the range. world counts workers; procs counts processes: "
      "dedicated servers come on top.\nsamples/s counts all measured steps of the slowest worker, "
      "short ones and long ones; step ms is the median step of the slowest worker; its "
      "shares (compute, exposed: waiting for other ranks, optim., other: data and idle) are means "
      "over workers and measured steps.\nA server's optimizer is also inside exposed; under dp so "
      "are loss and sums, which the master computes.\nMB = 10^6 bytes a step that the busiest "
      "rank sends, and the least that it must; same run? holds the result against `single` over "
      "the "
      "same micro-batches.\n";
  if (std::any_of(cases.begin(), cases.end(),
                  [](const CaseSummary& one) { return one.bytes_computed; }))
    out +=
        "~: computed from the sizes of the collectives, not counted: NCCL does not say what it "
        "sends.\n";
  if (predicted(cases))
    out +=
        "predicted: what a simulation of this machine, as `ringside calibrate` measured it, says; "
        "in brackets by how much that is more or less than the measured figure.\n";
  for (const CaseSummary& one : cases)
    if (!one.prediction_failure.empty())
      out += fmt::format("No prediction of {} at world {}: {}\n", one.label, one.world,
                         one.prediction_failure);
  if (!single_was_compared(cases))
    out +=
        "No speed-up: `single` was not compared (as a reference it runs once, cold); add it to "
        "compare.schemes.\n";
  if (const std::string held_out = evaluation_table(cases); !held_out.empty())
    out += "\n" + held_out;
  if (const std::string memory = memory_table(cases); !memory.empty()) out += "\n" + memory;
  if (has_device_memory(cases))
    out +=
        "\nreserved: what the device's allocator took from the driver at most; outside: what was "
        "gone "
        "besides, of the context, libraries and other processes.\n";
  return out;
}

std::string row_text(const Row& row) {
  double sent = 0;
  const RankRecord* largest = nullptr;
  for (const RankRecord& rank : row.ranks) {
    sent = std::max(sent, rank.bytes_sent_per_step);
    if (!largest || rank.at_peak.total() > largest->at_peak.total()) largest = &rank;
  }
  std::string out;
  for (const auto& e : row.evaluations) {
    const auto perplexity_of = perplexity(row, e);
    out +=
        fmt::format("held-out loss {:.4f}{}, accuracy {:.2f}% after step {} ({:.1f} s)\n", e.loss,
                    perplexity_of ? fmt::format(", perplexity {:.3g}", *perplexity_of) : "",
                    100 * e.accuracy, e.step, e.seconds);
  }
  out += fmt::format("{} at world {}: {} parameters, {} steps of {} samples\n", row.plan.scheme,
                     row.plan.world, row.parameters, row.plan.train.steps,
                     row.plan.train.global_batch);
  if (row.plan.cluster)
    out += fmt::format("SIMULATED      on cluster {}, in virtual time\n", row.plan.cluster->name);
  if (!row.loss.empty()) out += fmt::format("loss           {:.4f}\n", row.loss.back());
  const std::string tokens =
      row.tokens_per_s > 0 ? fmt::format(", {:.0f} tokens/s", row.tokens_per_s) : "";
  out += fmt::format("speed          {} samples/s{}\n", per_second(row.samples_per_s), tokens);
  if (row.skipped_steps > 0)
    out += fmt::format("skipped        {} steps, whose gradients overflowed\n", row.skipped_steps);
  out += fmt::format("step           {:.1f} ms (10%: {:.1f}, 90%: {:.1f})\n", row.step_ms.median,
                     row.step_ms.p10, row.step_ms.p90);
  out += fmt::format(
      "of which       compute {}, exposed communication {}, optimizer {}, data {}, "
      "idle {} ms\n",
      milliseconds(row.time_ms.compute), milliseconds(row.time_ms.exposed),
      milliseconds(row.time_ms.optimizer), milliseconds(row.time_ms.data),
      milliseconds(row.time_ms.idle));
  out += fmt::format("sent           {} MB a step by the busiest rank{}; least possible {} MB\n",
                     megabytes(sent), bytes_computed(row) ? " (computed, not counted)" : "",
                     megabytes(row.bytes_minimum_per_step));
  if (largest)
    out += fmt::format("peak memory    {} MB on rank {}{}\n",
                       megabytes(static_cast<double>(largest->at_peak.total())), largest->rank,
                       resident_text(*largest));
  if (!row.parameter_hash.empty()) out += fmt::format("parameters     {}\n", row.parameter_hash);
  return out;
}

}  // namespace ringside
