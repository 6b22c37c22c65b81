#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.h"
#include "core/plan/device_traits.h"
#include "core/plan/mesh.h"
#include "core/plan/places.h"
#include "experiments/runner/config/toml.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/explain/cause.h"

namespace ringside::tools::explain {

const std::vector<Cause>& causes() {
  static const std::vector<Cause> list = {
      {"disturbed machine", false, disturbed_machine},
      {"more threads than cores", false, more_threads_than_cores},
      {"a slow rank", false, slow_rank},
      {"uneven shares", false, uneven_shares},
      {"reading samples", false, reading_samples},
      {"bubble", false, bubble},
      {"imbalance of stages", false, imbalance_of_stages},
      {"exposed sends", true, exposed_sends},
      {"one bucket for all", true, one_bucket},
      {"no overlap", true, no_overlap},
      {"the last bucket", true, last_bucket},
      {"prefetch off", true, prefetch_off},
      {"prefetch too late", true, prefetch_late},
      {"reduced too often", true, reduced_too_often},
      {"more bytes than needed", true, more_bytes},
      {"a busy server", true, busy_server},
      {"the servers' optimizer", true, optimizer_of_servers},
      {"offload not hidden", true, host_not_hidden},
      {"recomputation", false, recomputed},
      {"the whole optimizer on every rank", false, whole_optimizer},
      // General causes, for the rest:
      {"a tiny batch", false, tiny_batch},
      {"communication longer than compute", true, long_communication},
  };
  return list;
}

std::vector<Finding> findings_of(const Evidence& evidence) {
  std::vector<Finding> out;
  for (const Cause& cause : causes())
    if (auto finding = cause.look(evidence, out);
        finding && finding->ms >= least_share * evidence.ms.mean()) {
      finding->cause = cause.name;
      finding->of_communication = cause.of_communication;
      out.push_back(std::move(*finding));
    }
  std::stable_sort(out.begin(), out.end(),
                   [](const Finding& a, const Finding& b) { return a.ms > b.ms; });
  return out;
}

Remedy all_reduce() { return {.words = "a scheme without servers, ddp", .scheme = "ddp"}; }

Remedy servers_everywhere(const RunPlan& plan) {
  return {.words = counted(plan.world, "server") + ", one colocated with each worker",
          .settings = {{"scheme.ps.servers", std::to_string(data_world(plan))},
                       {"scheme.ps.placement", "colocated"}},
          .scheme = "ps"};
}

Remedy sharded_optimizer() {
  return {.words = "ranks that divide the optimizer, as zero1 does", .scheme = "zero1"};
}

std::optional<std::string> option_of(const RunPlan& plan, std::string_view name) {
  for (const Field& field : plan.options.fields()) {
    if (field.name != name) continue;
    std::string text = runner::toml_text(field.value);
    std::erase(text, '"');
    return text;
  }
  return {};
}

std::optional<double> number_of(const RunPlan& plan, std::string_view name) {
  const auto text = option_of(plan, name);
  return text ? std::optional(std::stod(*text)) : std::nullopt;
}

std::string key_of(const RunPlan& plan, std::string_view option) {
  return fmt::format("scheme.{}.{}", plan.scheme, option);
}

SchemeTopology topology_of(const RunPlan& plan) {
  return runner::find_scheme(plan.scheme).topology;
}

std::optional<StateDivision> division_of(const RunPlan& plan) {
  const SchemeInfo& scheme = runner::find_scheme(plan.scheme);
  if (!scheme.divides) return {};
  return scheme.divides(plan.options, data_world(plan));
}

double gradient_mb(const Evidence& evidence) {
  return 1e-6 * static_cast<double>(evidence.row->parameters) *
         static_cast<double>(size_of(reduce_dtype(evidence.plan().train)));
}

std::optional<double> link_gbs(const RunPlan& plan) {
  if (!plan.cluster || sim::shares_memory(*plan.cluster)) return {};
  if (machines_of_workers(plan) > 1) return plan.cluster->nic.gbs;
  return plan.cluster->topology == sim::Topology::pcie ? plan.cluster->pcie.gbs
                                                       : plan.cluster->peer.gbs;
}

bool share_a_memory(const RunPlan& plan) {
  if (plan.cluster) return sim::shares_memory(*plan.cluster) && machines_of_workers(plan) == 1;
  return device_traits(plan.device.kind).on_processor && !spans_hosts(plan);
}

std::string short_number(double value) { return fmt::format("{:.3g}", value); }

}  // namespace ringside::tools::explain
