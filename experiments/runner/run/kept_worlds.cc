#include "experiments/runner/run/kept_worlds.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/json_fields.h"
#include "core/base/whole_file.h"

namespace ringside::runner {
namespace {

constexpr const char* file_of_worlds = "worlds.json";

std::filesystem::path path_of_worlds(const RunPlan& plan) {
  return std::filesystem::path(plan.checkpoint.path) / file_of_worlds;
}

}  // namespace

void keep_worlds(const RunPlan& plan, const std::vector<WorldPeriod>& worlds) {
  if (plan.checkpoint.path.empty()) return;
  nlohmann::ordered_json out = {{"run", plan.id}, {"worlds", nlohmann::ordered_json::array()}};
  for (const WorldPeriod& period : worlds) out["worlds"].push_back(to_json(fields_to_read(period)));
  write_whole(OpenFolder(plan.checkpoint.path), file_of_worlds, out.dump(1) + "\n");
}

std::vector<WorldPeriod> kept_worlds(const RunPlan& plan, std::int64_t step) {
  if (plan.checkpoint.path.empty() || step == 0) return {};
  std::ifstream in(path_of_worlds(plan));
  const nlohmann::json kept = nlohmann::json::parse(in, nullptr, false);
  std::vector<WorldPeriod> out;
  try {
    if (!kept.is_object() || kept.at("run") != plan.id) return {};
    for (const nlohmann::json& period : kept.at("worlds"))
      out.push_back(read_json<WorldPeriod>(period));
  } catch (const nlohmann::json::exception&) {
    return {};  // another program wrote it
  }
  std::erase_if(out, [step](const WorldPeriod& period) { return period.from > step; });
  const bool can_be_replayed = std::ranges::all_of(out, [&](const WorldPeriod& period) {
    return std::ranges::find(plan.worlds, period.world, &RunPlan::world) != plan.worlds.end();
  });
  return can_be_replayed ? out : std::vector<WorldPeriod>();
}

void forget_worlds(const RunPlan& plan) {
  std::error_code ignored;
  if (!plan.checkpoint.path.empty()) std::filesystem::remove(path_of_worlds(plan), ignored);
}

}  // namespace ringside::runner
