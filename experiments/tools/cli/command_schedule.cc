// ringside schedule show, check
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/whole_file.h"
#include "core/pipeline/activations.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/makers.h"
#include "core/pipeline/picture.h"
#include "experiments/runner/report/text_table.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside::tools::cli {
namespace {

using pipeline::MakerInfo;
using pipeline::Schedule;
using pipeline::SimulatedSchedule;

struct ScheduleArguments {
  std::string name;  // or a file
  int stages = 0, chunks = 0;
  std::int64_t micro_batches = 0;  // 0: not said
  pipeline::StageTimes times{};
  double send_s = 0;
  std::int64_t most_in_flight = 0;  // 0: not said
  std::string csv, svg;
};

/// A schedule, and how it was made; a schedule from a file has no formulas.
struct ShownSchedule {
  Schedule schedule{};  // with its sends
  const MakerInfo* row = nullptr;
  int chunks = 1;
};

constexpr std::string_view csv_ending = ".csv";

/// The ranges of options let through what is no number.
void check_seconds(const ScheduleArguments& arguments) {
  const std::pair<std::string_view, double> options[] = {{"--f", arguments.times.f},
                                                         {"--b", arguments.times.b},
                                                         {"--w", arguments.times.w},
                                                         {"--send", arguments.send_s}};
  for (const auto& [name, seconds] : options)
    if (std::isnan(seconds)) throw Error("{}: nan is no time; give seconds", name);
}

ShownSchedule schedule_of_file(const ScheduleArguments& arguments) {
  if (arguments.stages != 0 || arguments.micro_batches != 0 || arguments.chunks != 0)
    throw Error(
        "{}: a file says by itself which stages and micro-batches there are; leave "
        "--stages, --micro-batches and --chunks out",
        arguments.name);
  return {with_sends(pipeline::read_csv(arguments.name)), nullptr, 1};
}

ShownSchedule schedule_of(const ScheduleArguments& arguments) {
  if (arguments.name.ends_with(csv_ending)) return schedule_of_file(arguments);
  const MakerInfo& row = pipeline::find_maker(arguments.name);
  const int stages = arguments.stages == 0 ? 4 : arguments.stages;
  const int chunks = arguments.chunks == 0 ? usual_chunks(row) : arguments.chunks;
  if (stages % chunks != 0)
    throw Error(
        "schedule {}: {} stages cannot be dealt out to ranks with {} each; change --stages "
        "or --chunks",
        row.name, stages, chunks);
  const std::int64_t micro_batches = arguments.micro_batches == 0 ? 8 : arguments.micro_batches;
  return {with_sends(row.make(stages / chunks, chunks, micro_batches)), &row, chunks};
}

std::int64_t sends_of(const Schedule& schedule) {
  std::int64_t out = 0;
  for (const auto& actions : schedule.actions)
    for (const pipeline::Action& action : actions)
      out += action.operation == pipeline::Operation::send_forward ||
             action.operation == pipeline::Operation::send_backward;
  return out;
}

std::string size_text(const Schedule& schedule) {
  return fmt::format("{}, {}, {}", counted(schedule.ranks(), "rank"),
                     counted(schedule.stages(), "stage"),
                     counted(schedule.micro_batches, "micro-batch", "es"));
}

/// "; by the formula 3 s"; nothing for schedules from files.
std::string by_formula(const ShownSchedule& shown, const ScheduleArguments& arguments,
                       double (*formula)(int, int, std::int64_t, double, double, double),
                       std::string_view unit) {
  const auto& [f, b, w] = arguments.times;
  const double value =
      formula(shown.schedule.ranks(), shown.chunks, shown.schedule.micro_batches, f, b, w);
  if (std::isnan(value)) return "; its paper has no formula for this case";
  return fmt::format("; by the formula {:.4g}{}{}", value, unit,
                     arguments.send_s > 0 ? ", if sends took no time" : "");
}

std::string times_text(const ShownSchedule& shown, const ScheduleArguments& arguments,
                       const SimulatedSchedule& simulated) {
  const double bubble = simulated.bubble();
  const auto formula = [&](auto of_row, std::string_view unit) {
    return shown.row ? by_formula(shown, arguments, shown.row->*of_row, unit) : "";
  };
  return fmt::format(
      "step: {:.6g} s\n"
      "bubble: {:.4g} of the compute of a rank, {:.1f}% of the step{}\n"
      "idle between the first and the last action of a rank: {:.4g} s{}\n"
      "critical path: {} actions, {:.6g} s of compute and {:.6g} s of sends\n"
      "sends: {}\n",
      simulated.whole_s, bubble, 100 * pipeline::bubble_share(bubble),
      formula(&MakerInfo::bubble, ""), simulated.idle(), formula(&MakerInfo::idle, " s"),
      simulated.critical_path.size(), simulated.critical_compute_s, simulated.critical_transfer_s(),
      sends_of(shown.schedule));
}

/// The most micro-batches of which each stage holds activations.
std::string activations_text(const ShownSchedule& shown) {
  const Schedule& schedule = shown.schedule;
  std::vector<runner::TableLine> lines = {{"stage", "rank", "F until B or I", "F until B or W"}};
  if (shown.row) lines[0].emplace_back("by the formula");
  const auto held = held_micro_batches(schedule);
  for (std::size_t stage = 0; stage < held.size(); ++stage) {
    lines.push_back({std::to_string(stage), std::to_string(schedule.ranks_of[stage]),
                     std::to_string(held[stage].until_input_gradient),
                     std::to_string(held[stage].until_weight_gradient)});
    if (shown.row)
      lines.back().push_back(std::to_string(shown.row->in_flight(
          schedule.ranks(), shown.chunks, schedule.micro_batches, static_cast<int>(stage))));
  }
  return "\nthe most micro-batches that a stage holds at a time\n" + runner::text_table(lines);
}

int show_schedule(const ScheduleArguments& arguments, const Process& process) {
  try {
    check_seconds(arguments);
    check_output("--csv", arguments.csv);
    check_output("--svg", arguments.svg);
    const ShownSchedule shown = schedule_of(arguments);
    const SimulatedSchedule simulated =
        simulate(shown.schedule, equal_times(shown.schedule, arguments.times, arguments.send_s));
    if (!arguments.csv.empty()) write_whole(arguments.csv, pipeline::to_csv(shown.schedule));
    if (!arguments.svg.empty()) write_whole(arguments.svg, picture_svg(shown.schedule, simulated));
    OutputStream out(STDOUT_FILENO, process.interrupted);
    out << shown.schedule.name << ": " << size_text(shown.schedule) << "\n\n"
        << picture_text(shown.schedule, simulated) << "\n"
        << times_text(shown, arguments, simulated) << activations_text(shown);
    return finish(out, ok);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
}

int check_file(const ScheduleArguments& arguments, const Process& process) {
  try {
    const Schedule schedule = pipeline::read_csv(arguments.name, arguments.most_in_flight);
    const auto held = std::ranges::max(held_micro_batches(schedule), {},
                                       &pipeline::HeldMicroBatches::until_weight_gradient);
    OutputStream out(STDOUT_FILENO, process.interrupted);
    out << fmt::format(
        "{}: {}, {}: every action and every value is in order; a stage holds at most {} at a "
        "time\n",
        arguments.name, size_text(schedule),
        has_sends(schedule) ? counted(sends_of(schedule), "send") : std::string("without sends"),
        counted(held.until_weight_gradient, "micro-batch", "es"));
    return finish(out, ok);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
}

void declare_times(CommandOptions& options, ScheduleArguments& arguments) {
  options.add("--f", arguments.times.f, "seconds of F, the forward of a micro-batch in a stage")
      .between(1e-9, 1e9)
      .type("SECONDS")
      .shows_default();
  options.add("--b", arguments.times.b, "seconds of I, the input gradient; B takes these and --w")
      .between(1e-9, 1e9)
      .type("SECONDS")
      .shows_default();
  options.add("--w", arguments.times.w, "seconds of W, the weight gradient")
      .between(1e-9, 1e9)
      .type("SECONDS")
      .shows_default();
  options.add("--send", arguments.send_s, "seconds of a send, which goes on beside compute")
      .between(0.0, 1e9)
      .type("SECONDS")
      .shows_default();
}

std::string names_of_schedules() {
  std::string out;
  for (const MakerInfo& row : pipeline::maker_rows())
    out += fmt::format("{}{}", out.empty() ? "" : ", ", row.name);
  return out;
}

}  // namespace

Execute schedule_show_command(CommandOptions& options) {
  options.summary(
      "draw a schedule of a pipeline, and compute its bubble, its sends and the activations that "
      "its stages hold");
  options.footer("Nothing is run. docs/pipelines.md explains schedules and their files.");
  const auto arguments = std::make_shared<ScheduleArguments>();
  options
      .add("NAME", arguments->name,
           "one of " + names_of_schedules() +
               ", or PyTorch's name of one; or a file of PyTorch's form that ends with .csv")
      .required();
  options.add("--stages", arguments->stages, "stages of the model; default: 4")
      .between(1, 1'000'000)
      .type("N");
  options.add("--micro-batches", arguments->micro_batches, "micro-batches of a step; default: 8")
      .between<std::int64_t>(1, 1'000'000)
      .type("N");
  options
      .add("--chunks", arguments->chunks,
           "stages of each rank; default: 2 for zb_v, 1 for the others")
      .between(1, 1'000'000)
      .type("N");
  declare_times(options, *arguments);
  options.add("--csv", arguments->csv, "also write the schedule with its sends to this file")
      .type("FILE");
  options.add("--svg", arguments->svg, "also write the picture to this file").type("FILE");
  return [arguments](const Process& process) { return show_schedule(*arguments, process); };
}

Execute schedule_check_command(CommandOptions& options) {
  options.summary("say whether a file has a schedule that ranks can carry out, or what is wrong");
  const auto arguments = std::make_shared<ScheduleArguments>();
  options.add("FILE", arguments->name, "a file of PyTorch's form, a row a rank").required();
  options
      .add("--most-in-flight", arguments->most_in_flight,
           "refuse it if a stage holds activations of more micro-batches at a time")
      .between<std::int64_t>(1, 1'000'000)
      .type("N");
  return [arguments](const Process& process) { return check_file(*arguments, process); };
}

}  // namespace ringside::tools::cli
