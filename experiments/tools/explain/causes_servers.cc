// Causes that lie in servers, and in the host to which ranks offload.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/runner/report/interval.h"
#include "experiments/runner/report/text_table.h"
#include "experiments/tools/explain/cause.h"

namespace ringside::tools::explain {
namespace {

double moved(const RankRecord& rank) {
  return rank.bytes_sent_per_step + rank.bytes_received_per_step;
}

/// Exposed time of waits for servers; without a trace all exposed time, because workers of servers
/// wait for nothing else.
double exposed_ms(const Evidence& e) {
  return e.traced() ? e.transfer_ms(WaitFor::server) : e.ms.exposed - e.for_stages_ms();
}

/// The serving rank that moves the most bytes, and the median bytes of ranks that only work.
struct Traffics {
  const RankRecord* server = nullptr;
  double worker = 0;
};

Traffics traffics_of(const RunRecord& row) {
  Traffics out;
  std::vector<double> workers;
  for (std::size_t r = 0; r < row.ranks.size() && r < row.plan.ranks.size(); ++r) {
    const RankRecord& rank = row.ranks[r];
    if (row.plan.ranks[r].server < 0)
      workers.push_back(moved(rank));
    else if (!out.server || moved(rank) > moved(*out.server))
      out.server = &rank;
  }
  out.worker = runner::median(workers);
  return out;
}

/// Whether the server's link takes most of the time for which workers wait.
std::string of_the_link(const RunPlan& plan, const RankRecord& server, double waited_ms) {
  const auto gbs = link_gbs(plan);
  if (!gbs) return fmt::format("Workers wait {} ms for it.", runner::milliseconds(waited_ms));
  // A master first sends values and then receives gradients; other servers do both at once.
  const double bytes = topology_of(plan) == SchemeTopology::master
                           ? moved(server)
                           : std::max(server.bytes_sent_per_step, server.bytes_received_per_step);
  const double link_ms = bytes / *gbs / 1e6;
  if (link_ms >= 0.5 * waited_ms)
    return fmt::format(
        "Its link of {} GB/s is the bottleneck: they take at least {} ms, and workers wait {} ms.",
        short_number(*gbs), runner::milliseconds(link_ms), runner::milliseconds(waited_ms));
  return fmt::format(
      "Its link of {} GB/s needs only {} ms for them. Of the {} ms for which workers wait, the "
      "rest is what messages cost that come and go one after the other.",
      short_number(*gbs), runner::milliseconds(link_ms), runner::milliseconds(waited_ms));
}

/// Whether remedies may change the scheme: schemes whose workers do not wait for each other compute
/// another training.
bool same_training(const RunPlan& plan) { return plan.promise == Promise::same_run; }

}  // namespace

std::optional<Finding> busy_server(const Evidence& e, const std::vector<Finding>&) {
  const RunPlan& plan = e.plan();
  const Traffics traffics = traffics_of(*e.row);
  // Below this, links of servers carry little more than those of workers, and more servers would
  // not help.
  constexpr double concentrated = 1.5;
  if (!traffics.server || traffics.worker <= 0 ||
      moved(*traffics.server) < concentrated * traffics.worker)
    return {};
  const RankRecord& server = *traffics.server;
  const bool master = topology_of(plan) == SchemeTopology::master;
  const double waited = exposed_ms(e);
  Finding out{
      .ms = std::max(0.0, waited - std::min(e.ms.serving_optimizer, waited)),
      .sentence = fmt::format(
          "All workers exchange values with {}: rank {} sends {} MB and receives {} MB a step, "
          "{:.1f} times what a worker moves. {}",
          master ? "one master"
                 : fmt::format("{} server{}", plan.servers, plan.servers == 1 ? "" : "s"),
          server.rank, runner::megabytes(server.bytes_sent_per_step),
          runner::megabytes(server.bytes_received_per_step), moved(server) / traffics.worker,
          of_the_link(plan, server, waited))};
  if (master || plan.servers < plan.world || !same_training(plan)) {
    Remedy spread = servers_everywhere(plan);
    if (spread.scheme == plan.scheme) spread.scheme = "";
    if (same_training(plan)) out.remedies.push_back(std::move(spread));
  }
  if (same_training(plan)) out.remedies.push_back(all_reduce());
  return out;
}

std::optional<Finding> optimizer_of_servers(const Evidence& e, const std::vector<Finding>&) {
  const RunPlan& plan = e.plan();
  if (plan.servers == 0) return {};
  const double ms = std::min(e.ms.serving_optimizer, exposed_ms(e));
  Finding out{.ms = ms,
              .sentence = fmt::format(
                  "The busiest of {} server{} updates parameters for {} ms of a step, and workers "
                  "wait for the new values.",
                  plan.servers, plan.servers == 1 ? "" : "s",
                  runner::milliseconds(e.ms.serving_optimizer))};
  if (!same_training(plan)) return out;
  if (plan.servers < plan.world) out.remedies.push_back(servers_everywhere(plan));
  out.remedies.push_back(all_reduce());
  return out;
}

std::optional<Finding> host_not_hidden(const Evidence& e, const std::vector<Finding>&) {
  if (e.plan().train.offload == Offload::none || !e.traced()) return {};
  const double ms = e.transfer_ms(WaitFor::host);
  return Finding{
      .ms = ms,
      .sentence = fmt::format(
          "Offload is not hidden: workers wait {} ms of a step for copies to and from the host and "
          "for the host's optimizer, which works {} ms.",
          runner::milliseconds(ms), runner::milliseconds(e.ms.serving_optimizer)),
      .remedies = {{.words = "without offload",
                    .settings = {{"train.offload", "none"}},
                    .caveat = "if the device has the memory"}}};
}

}  // namespace ringside::tools::explain
