#include "experiments/runner/hosts/agent.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/seconds_now.h"
#include "core/launch/remote_host.h"
#include "experiments/runner/hosts/addresses.h"
#include "experiments/runner/hosts/member_host.h"
#include "experiments/runner/registry/plugins.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/results/environment.h"
#include "peer/comm/mpi/wire.h"

namespace ringside::runner {
namespace {

/// How long after a signal to stop an agent waits for the leader, which may have got it too.
constexpr double grace_s = 5;

nlohmann::json answer(const nlohmann::json& question, const AgentStart& start) {
  if (question.contains("environment"))
    return describe_environment(
        start.program.environment,
        {std::filesystem::canonical(start.program.file), start.facts.commit},
        question["environment"].at("gpus").get<bool>());
  if (question.contains("devices")) {
    const AgentDevices devices = devices_of_this_process(question["devices"]);
    return {{"seen", devices.seen}, {"cause", devices.cause}};
  }
  if (question.contains("mpi"))
    return peer::why_no_mpi(*value_named<InterHostBackend>(question["mpi"].get<std::string>()));
  if (question.contains("data")) {
    std::vector<RunPlan> runs;
    for (const nlohmann::json& run : question["data"]) runs.push_back(read_plan(run));
    return digest_of_data(runs);
  }
  throw Error("it does not know what to answer");
}

/// What has become of the leader, or of what was taken for one.
std::string words_for(ServiceEnd end, const AgentStart& start, const AgentFacts& facts) {
  if (end == ServiceEnd::unheard && !keyed(start.rendezvous))
    return fmt::format(
        "has not said within {} s that it leads a job without keys, or ended the connection, as a "
        "leader with keys does: start all processes of the job with --keys DIR, or none",
        start.join_timeout_s);
  if (end == ServiceEnd::unheard)
    return fmt::format("has not answered as a leader of the job within {} s", start.join_timeout_s);
  return fmt::format(
      "{}; {} ends its ranks and itself",
      end == ServiceEnd::silent
          ? fmt::format("stands still: it has said nothing for {} s", longest_silence_s)
          : "has ended or cannot be reached",
      facts.name());
}

}  // namespace

void run_agent(const AgentStart& start) {
  const auto link = connect_to_leader(start.rendezvous, start.join_timeout_s, start.unheard_s);
  AgentFacts facts = start.facts;
  if (facts.address.empty())
    facts.address =
        own_address_towards(start.rendezvous.address, "set --advertise to this host's address");
  facts.interface = interface_of(facts.address);
  JsonLine line(link->release_socket());
  line.send({{"join", to_json(facts)}});
  MemberHost host(start.program, facts.address);
  std::optional<double> stops;
  const auto stopped = [&] {
    if (!start.interrupted()) return false;
    if (!stops) stops = seconds_now() + grace_s;
    return seconds_now() > *stops;
  };
  const auto reply = [&](const nlohmann::json& question) { return answer(question, start); };
  const ServiceEnd end =
      serve_ranks(line, host,
                  {.read = read_plan,
                   .answer = reply,
                   .stopped = stopped,
                   .first_word_s = start.join_timeout_s,
                   .say = start.say,
                   .launcher = fmt::format("the leader at {}:{}", start.rendezvous.address,
                                           start.rendezvous.port),
                   .address = keyed(start.rendezvous) ? start.rendezvous.address : ""});
  if (end == ServiceEnd::over) return;
  if (stops) throw Error("interrupted");
  throw Error("{} at {}:{} {}", end == ServiceEnd::unheard ? "what listens" : "the leader",
              start.rendezvous.address, start.rendezvous.port, words_for(end, start, facts));
}

}  // namespace ringside::runner
