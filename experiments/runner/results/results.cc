#include "experiments/runner/results/results.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/whole_file.h"
#include "core/plan/same_run.h"
#include "experiments/runner/registry/plugins.h"

namespace ringside::runner {
namespace {

namespace fs = std::filesystem;

constexpr const char* files_of_the_start[] = {"plan.json", "environment.json", "rows.jsonl"};
constexpr std::string_view files_of_a_comparison[] = {"traces",
                                                      "collectives",
                                                      "report.html",
                                                      "summary.md",
                                                      "summary.json",
                                                      ResultsFolder::events_file,
                                                      ResultsFolder::metrics_file,
                                                      "rows.jsonl",
                                                      "environment.json",
                                                      "plan.json"};

/// Erases from the JSON of a plan what the run's case and the sweep set.
void erase_settings(nlohmann::json& plan_json, const RunPlan& plan) {
  std::vector<Setting> settings = plan.listing.set;
  settings.insert(settings.end(), plan.listing.swept.begin(), plan.listing.swept.end());
  for (const Setting& one : settings) {
    const auto dot = one.key.find('.');
    const std::string table = one.key.substr(0, dot);
    if (table == "scheme") continue;  // options have been erased
    if (one.key == "model.preset" || one.key == "model.from")
      plan_json["model"].clear();
    else if (dot != std::string::npos && plan_json.contains(table))
      plan_json[table].erase(one.key.substr(dot + 1));
    if (table == "device" || table == "sim") plan_json.erase("cluster");
  }
}

/// Erases from the JSON of a reference's plan what may differ among the runs that share the
/// reference, which has the values of the first of them: it decides about time and memory alone.
void erase_unshared(nlohmann::json& plan_json) {
  for (const char* own : {"warmup", "recompute", "timeout_s"}) plan_json["train"].erase(own);
  for (const char* own :
       {"threads", "cluster", "efficiency", "unfused", "peak_tflops", "slow", "jitter"})
    plan_json["device"].erase(own);
  for (const char* own :
       {"message_ranks", "traced_ranks", "network_gbit_s", "queue_kb", "drops", "jitter", "spread",
        "device_share", "tuning", "servers_apart", "framework", "messages", "decode", "intervals"})
    plan_json["sim"].erase(own);
  plan_json.erase("cluster");
}

/// Whether both plans are the same reference; the runs that it was made for may differ.
bool same_reference(const RunPlan& a, const RunPlan& b) {
  return a.purpose == Purpose::reference && b.purpose == Purpose::reference &&
         a.listing.label == b.listing.label && a.id == b.id && a.defines == b.defines &&
         a.scheme == b.scheme && a.options == b.options && a.sums == b.sums && same_training(a, b);
}

/// The part of a plan that does not depend on its scheme, world, case and point of the sweep. Runs
/// that the comparison adds by itself (`asked` is false) may differ in two more settings: a
/// reference has the learning rate of the run that is compared with it, and the added run of the
/// scheme `single` on all cores has more threads.
nlohmann::json common_part(const RunPlan& plan, bool asked) {
  nlohmann::json common = to_json(plan);
  for (const char* own :
       {"run",           "label",    "family",     "set",     "swept",   "purpose", "line",
        "place",         "sum_tree", "scheme",     "options", "promise", "world",   "defines",
        "servers",       "repeat",   "seeded",     "ranks",   "homes",   "quick",   "host_step_us",
        "unknown_order", "program",  "checkpoint", "mesh",    "pipeline"})
    common.erase(own);
  if (!asked) {
    for (const char* own : {"lr", "lr_scaling"}) common["optimizer"].erase(own);
    common["device"].erase("threads");
  }
  common["train"].erase("micro_batch");
  common["train"].erase("accumulation");
  common["train"].erase("shares");
  common["train"].erase("reduce");
  if (plan.train.batch_per_rank > 0) {
    common["train"].erase("global_batch");
    if (!asked) common["train"].erase("batch_per_rank");
  }
  common["model"].erase("batch_norm_group");
  erase_settings(common, plan);
  if (plan.purpose == Purpose::reference) erase_unshared(common);
  return common;
}

/// Erases from `from` the members that `other` does not have or, with `same`, has with another
/// value.
void keep_members(nlohmann::json& from, const nlohmann::json& other, bool same) {
  for (auto member = from.begin(); member != from.end();) {
    const auto there = other.find(member.key());
    const bool both_structs = there != other.end() && member->is_object() && there->is_object();
    if (both_structs) keep_members(*member, *there, same);
    const bool kept = there != other.end() && (both_structs || !same || *member == *there);
    member = kept ? std::next(member) : from.erase(member);
  }
}

/// The common part of all runs that are asked for.
nlohmann::json common_part(const std::vector<RunPlan>& runs, bool asked) {
  std::optional<nlohmann::json> common;
  for (const RunPlan& run : runs) {
    if (run.purpose != Purpose::asked) continue;
    const nlohmann::json of_run = common_part(run, asked);
    if (common)
      keep_members(*common, of_run, true);
    else
      common = of_run;
  }
  return common.value_or(nlohmann::json::object());
}

/// The host of each rank, by number in the order of their first ranks: "1, 1, 2". A resumed
/// comparison may have hosts with other names and addresses; a run depends on which ranks share a
/// host.
std::string sharing_of_hosts(const RunPlan& plan) {
  std::vector<std::string> hosts;
  std::vector<std::size_t> numbers;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const std::string host = r < plan.homes.size() ? plan.homes[r].host : "";
    const auto known = std::find(hosts.begin(), hosts.end(), host);
    numbers.push_back(static_cast<std::size_t>(known - hosts.begin()) + 1);
    if (known == hosts.end()) hosts.push_back(host);
  }
  return fmt::format("{}", fmt::join(numbers, ", "));
}

/// The plan without its positions among the other runs: a comparison that is resumed may have more
/// schemes or worlds than before. Its hosts are compared separately (sharing_of_hosts()); the
/// spread of ranks and their transport matter only between hosts. GPUs may have other numbers in
/// another job; environments tell whether ranks share one.
nlohmann::json run_part(const RunPlan& plan) {
  nlohmann::json all = to_json(plan);
  for (const char* own : {"line", "place", "homes", "resume"}) all.erase(own);
  if (!spans_hosts(plan)) all.erase("hosts");
  for (nlohmann::json& rank : all["ranks"]) rank.erase("ordinal");
  return all;
}

void check_equal(const RunPlan& there, const nlohmann::json& old_plan,
                 const nlohmann::json& new_plan) {
  if (old_plan == new_plan) return;
  const nlohmann::json change = nlohmann::json::diff(old_plan, new_plan).at(0);
  const auto where = nlohmann::json::json_pointer(change.at("path").get<std::string>());
  std::string key = where.to_string().substr(1);
  for (char& c : key)
    if (c == '/') c = '.';
  const auto text = [&](const nlohmann::json& plan) {
    return plan.contains(where) ? plan.at(where).dump() : "nothing";
  };
  throw Error(
      "--resume: the row of run {} was made with {} = {}, not {}; leave --resume out to "
      "start anew",
      there.id, key, text(old_plan), text(new_plan));
}

void check_sharing(const RunPlan& before, const RunPlan& now) {
  const std::string there = sharing_of_hosts(before), here = sharing_of_hosts(now);
  if (there != here)
    throw Error(
        "--resume: the row of run {} was made with its ranks on hosts {}, but now they would be on "
        "hosts {}; start as many processes on each host as before, or leave --resume out to start "
        "anew",
        before.id, there, here);
}

/// Throws Error if records were made with other seeds than those of the runs.
void check_seeds(const std::vector<RunRecord>& rows, const std::vector<RunPlan>& runs) {
  const bool seeds =
      std::any_of(runs.begin(), runs.end(), [](const RunPlan& run) { return run.listing.seeded; });
  for (const RunRecord& row : rows) {
    if (row.plan.listing.seeded != seeds)
      throw Error(
          "--resume: the row of run {} was made {} compare.seeds; {}, or leave --resume out to "
          "start anew",
          row.plan.id, seeds ? "without" : "with",
          seeds ? "leave it out" : "give the same seeds again");
    const auto same_seed = [&](const RunPlan& run) {
      return run.train.seed == row.plan.train.seed;
    };
    if (seeds && std::none_of(runs.begin(), runs.end(), same_seed))
      throw Error(
          "--resume: the row of run {} has seed {}, which compare.seeds does not name; add it, or "
          "leave --resume out to start anew",
          row.plan.id, row.plan.train.seed);
  }
}

}  // namespace

namespace {

/// A link of another user could redirect this user's files. The system's links are trusted.
void check_not_led_astray(const fs::path& folder) {
  const fs::path name = folder.has_filename() ? folder : folder.parent_path();
  struct stat there {};
  if (lstat(name.c_str(), &there) == 0 && S_ISLNK(there.st_mode) && there.st_uid != geteuid() &&
      there.st_uid != 0)
    throw Error("results folder {} is a link of user {}; choose another with --results",
                folder.string(), there.st_uid);
}

}  // namespace

ResultsFolder::ResultsFolder(fs::path folder) : folder_(std::move(folder)) {
  check_not_led_astray(folder_);
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    throw Error("results folder {} cannot be made: {}; choose another with --results",
                folder_.string(), error.message());
  if (access(folder_.c_str(), W_OK | X_OK) != 0)
    throw Error("results folder {} cannot be written: {}; choose another with --results",
                folder_.string(), std::strerror(errno));
  files_.emplace(folder_);
  check_ours();
  lock_.take(folder_);
}

std::vector<RunRecord> ResultsFolder::read_rows() const {
  std::vector<RunRecord> rows;
  const fs::path file = folder_ / "rows.jsonl";
  std::ifstream in(file);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const bool cut_short = in.eof();  // the last line has no line feed
    try {
      const auto json = nlohmann::json::parse(line);
      RunRecord row = row_from_json(json, options_in(json));
      if (row.status == "ok") rows.push_back(std::move(row));
    } catch (const std::exception& error) {
      if (cut_short) break;
      throw Error("{}:{}: not a row ({}); leave --resume out to start anew", file.string(), number,
                  error.what());
    }
  }
  return rows;
}

std::optional<DataState> ResultsFolder::read_data_state() const {
  std::ifstream in(folder_ / "plan.json");
  const nlohmann::json plan = nlohmann::json::parse(in, nullptr, false);
  if (!plan.is_object() || !plan.contains("data")) return {};
  try {
    return data_state_from_json(plan.at("data"));
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        "{}: the value of \"data\" is not a list of files ({}); leave --resume out to start anew",
        (folder_ / "plan.json").string(), error.what());
  }
}

std::optional<nlohmann::json> ResultsFolder::read_environment() const {
  // Reads from this folder even if it was renamed.
  std::ifstream in(fmt::format("/proc/self/fd/{}/environment.json", files_->descriptor()));
  nlohmann::json environment = nlohmann::json::parse(in, nullptr, false);
  if (!environment.is_object()) return {};
  return environment;
}

std::vector<MeasuredSpeeds> ResultsFolder::read_speeds() const {
  std::ifstream in(folder_ / "plan.json");
  const nlohmann::json plan = nlohmann::json::parse(in, nullptr, false);
  std::vector<MeasuredSpeeds> out;
  if (!plan.is_object() || !plan.contains("speeds")) return out;
  try {
    if (!plan.at("speeds").is_array()) throw Error("no array");
    for (const nlohmann::json& one : plan.at("speeds")) {
      out.push_back(read_json<MeasuredSpeeds>(one));
      check_times(out.back());
    }
  } catch (const std::exception& error) {
    throw Error("{}: \"speeds\" cannot be used ({}); leave --resume out to start anew",
                (folder_ / "plan.json").string(), error.what());
  }
  return out;
}

nlohmann::json plan_json(const std::vector<RunPlan>& runs, const DataState& data,
                         const std::vector<MeasuredSpeeds>& speeds) {
  nlohmann::json plans = nlohmann::json::array(), measured = nlohmann::json::array();
  for (const RunPlan& run : runs) plans.emplace_back(to_json(run));
  for (const MeasuredSpeeds& one : speeds) measured.emplace_back(to_json(one));
  return {{"schema", RunRecord::schema},
          {"data", files_to_json(data)},
          {"data_sources", sources_to_json(data)},
          {"speeds", measured},
          {"runs", plans}};
}

fs::path ResultsFolder::start(const std::vector<RunRecord>& rows, const std::string& plan,
                              const std::string& environment) {
  const fs::path before = rows.empty() ? move_aside() : fs::path();
  std::string lines;
  for (const RunRecord& row : rows) lines += to_json(row).dump() + "\n";
  // Comes first, because it shows that a comparison wrote the other files.
  write("plan.json", plan);
  write("environment.json", environment);
  write("rows.jsonl", lines);
  for (const char* of_the_end : {"summary.json", "summary.md", "report.html"})
    fs::remove(folder_ / of_the_end);
  if (rows.empty())  // of a comparison that made no record
    for (const char* of_the_way : {events_file, metrics_file}) fs::remove(folder_ / of_the_way);
  return before;
}

void ResultsFolder::check_ours() const {
  std::ifstream in(folder_ / "plan.json");
  const nlohmann::json plan = nlohmann::json::parse(in, nullptr, false);
  if (plan.is_object() && plan.contains("schema") && plan.contains("runs")) return;
  // Rows that are kept without their plan are a comparison's too.
  std::string line;
  std::ifstream rows(folder_ / "rows.jsonl");
  std::getline(rows, line);
  const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
  if (row.is_object() && row.contains("schema") && row.contains("step_ms")) return;
  for (const std::string_view name : files_of_a_comparison)
    if (fs::exists(folder_ / name))
      throw Error(
          "results folder {} contains {} but no plan.json of a comparison, so another program may "
          "have written it; choose another folder with --results",
          folder_.string(), name);
}

fs::path ResultsFolder::move_aside() {
  std::error_code nothing_there;
  if (const auto bytes = fs::file_size(folder_ / "rows.jsonl", nothing_there);
      nothing_there || bytes == 0)
    return {};
  fs::path before;
  for (int number = 1; before.empty() || fs::exists(before); ++number)
    before = folder_ / fmt::format("before-{}", number);
  fs::create_directory(before);
  // plan.json moves last: as long as it is there, it shows that a comparison wrote the other files.
  for (const std::string_view name : files_of_a_comparison)
    if (fs::exists(folder_ / name)) fs::rename(folder_ / name, before / name);
  return before;
}

void ResultsFolder::append(const RunRecord& row) {
  if (!files_->contains("rows.jsonl")) check_there();
  append_to_file(*files_, "rows.jsonl", to_json(row).dump() + "\n");
}

void ResultsFolder::write(const std::string& name, const std::string& content) {
  const fs::path target = name;
  if (target.has_parent_path())
    write_whole(files_->inside(target.parent_path()), target.filename(), content);
  else
    write_whole(*files_, name, content);
}

void ResultsFolder::check_there() const {
  constexpr std::string_view what_to_do = "leave the folder alone while a comparison runs";
  if (const std::string gone = files_->gone(); !gone.empty())
    throw Error("results folder {} {} during the comparison; {}", folder_.string(), gone,
                what_to_do);
  for (const char* file : files_of_the_start)
    if (!files_->contains(file))
      throw Error("{} has been removed during the comparison; {}", (folder_ / file).string(),
                  what_to_do);
}

void check_same_experiment(const std::vector<RunRecord>& rows, const std::vector<RunPlan>& runs) {
  check_seeds(rows, runs);
  const nlohmann::json asked = common_part(runs, true), others = common_part(runs, false);
  for (const RunRecord& row : rows) {
    const bool was_asked = row.plan.purpose == Purpose::asked;
    nlohmann::json old_part = common_part(row.plan, was_asked),
                   new_part = was_asked ? asked : others;
    keep_members(old_part, new_part, false);
    keep_members(new_part, old_part, false);
    check_equal(row.plan, old_part, new_part);
    for (const RunPlan& run : runs) {
      if (run.id != row.plan.id || same_reference(run, row.plan)) continue;
      check_sharing(row.plan, run);
      check_equal(row.plan, run_part(row.plan), run_part(run));
    }
  }
}

void take_lines(std::vector<RunRecord>& rows, const std::vector<RunPlan>& runs) {
  const auto behind = static_cast<int>(runs.size());  // larger than the `line` of any run
  for (RunRecord& row : rows) {
    const auto same = std::find_if(runs.begin(), runs.end(), [&](const RunPlan& run) {
      return same_case(run, row.plan) || same_reference(run, row.plan);
    });
    row.plan.listing.line =
        same != runs.end() ? same->listing.line : behind + row.plan.listing.line;
  }
}

}  // namespace ringside::runner
