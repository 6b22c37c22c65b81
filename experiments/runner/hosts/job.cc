#include "experiments/runner/hosts/job.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"
#include "experiments/runner/hosts/addresses.h"
#include "experiments/runner/hosts/job_hosts.h"
#include "experiments/runner/hosts/mpi_world.h"
#include "experiments/runner/hosts/pending_connections.h"
#include "experiments/runner/hosts/placement.h"
#include "experiments/runner/registry/mpi_of.h"

namespace ringside::runner {
namespace {

constexpr double nap_s = 0.05;
/// After so long some agents are perhaps not only late.
constexpr double late_s = 3;
/// How long those who come to a job that cannot begin are told why.
constexpr double latecomers_s = 3;
constexpr double environment_timeout_s = 30;  // to look at GPUs
constexpr double mpi_timeout_s = 30;          // to load its libraries
constexpr double data_timeout_s = 600;        // to read the begin and the end of every file

/// One of the runs for each data set and weights that they read.
nlohmann::json readers_of(const std::vector<RunPlan>& runs) {
  std::vector<const RunPlan*> readers;
  for (const RunPlan& run : runs)
    if (std::none_of(readers.begin(), readers.end(), [&](const RunPlan* other) {
          return other->data == run.data &&
                 other->train.initial_weights == run.train.initial_weights;
        }))
      readers.push_back(&run);
  nlohmann::json out = nlohmann::json::array();
  for (const RunPlan* run : readers) out.emplace_back(to_json(*run));
  return out;
}

}  // namespace

/// Waits for the agents of a job.
class Job::Muster {
 public:
  Muster(const JobStart& start, ps::StreamListener& listener)
      : start_(start),
        port_(listener.port()),
        refusals_(start.say),
        newcomers_(listener, refusals_),
        joined_(static_cast<std::size_t>(start.facts.agents)),
        others_(joined_.size()) {
    joined_.front() = start.facts;
  }

  /// Throws Error if the job cannot begin. All agents, also those that come a moment later, have
  /// been told why by then.
  void wait() {
    try {
      wait_for_all();
    } catch (const Error& error) {
      dismiss(error.what());
      throw;
    }
  }

  std::vector<AgentFacts> here() const {
    std::vector<AgentFacts> out;
    for (const auto& agent : joined_)
      if (agent) out.push_back(*agent);
    return out;
  }
  /// By agent; none for this process.
  std::vector<std::unique_ptr<RemoteHost>> others() && { return std::move(others_); }

 private:
  void wait_for_all() {
    WaitingTime waited(seconds_now(), nap_s);
    while (!missing().empty()) {
      if (start_.interrupted()) throw Error("interrupted");
      start_.check();
      if (waited.seconds(seconds_now()) > start_.join_timeout_s)
        throw Error(
            "agents {} of {} did not come to {}:{} within {} s (--join-timeout); those that are "
            "here: {}{}{}",
            fmt::join(missing(), ", "), joined_.size(), start_.rendezvous.address, port_,
            start_.join_timeout_s, text_of(here()), strangers(), loopback_remedy());
      if (!said_late_ && waited.seconds(seconds_now()) > late_s) {
        said_late_ = true;
        if (const std::string remedy = loopback_remedy(); !remedy.empty())
          start_.say(fmt::format("agents {} of {} have not come to {}:{} yet{}",
                                 fmt::join(missing(), ", "), joined_.size(),
                                 start_.rendezvous.address, port_, remedy));
      }
      listen();
    }
  }

  std::string strangers() const {
    if (refusals_.total() == 0) return {};
    const std::size_t total = refusals_.total();
    return fmt::format("; {} connection{} of others {} refused", total, total == 1 ? "" : "s",
                       total == 1 ? "was" : "were");
  }

  /// What to do if the leader listens where agents of other hosts, which have keys, cannot come;
  /// the name of a Debian host means 127.0.1.1 there. Empty if they can.
  std::string loopback_remedy() const {
    const Rendezvous& rendezvous = start_.rendezvous;
    if (!keyed(rendezvous) || !is_loopback(rendezvous.address)) return {};
    return fmt::format(
        "; no other host reaches {}: if they are on other hosts, set {} to an address of this host "
        "for all processes",
        rendezvous.address, rendezvous.other_address);
  }

  std::vector<std::size_t> missing() const {
    std::vector<std::size_t> out;
    for (std::size_t agent = 0; agent < joined_.size(); ++agent)
      if (!joined_[agent]) out.push_back(agent);
    return out;
  }

  void dismiss(const std::string& cause) {
    std::size_t told = 1 + told_;
    for (const auto& other : others_)
      if (other) told += other->refuse(cause);
    const double end = seconds_now() + latecomers_s;
    while (told < joined_.size() && seconds_now() < end && !start_.interrupted())
      for (const AcceptedConnection& newcomer : newcomers_.hear(poll_files(newcomers_.files())))
        told += newcomer.line->send({{"refused", cause}});
  }

  void listen() {
    std::vector<int> files = newcomers_.files();
    const std::size_t first = files.size();
    for (const auto& other : others_)
      for (const int file : other ? other->files() : std::vector<int>()) files.push_back(file);
    std::vector<bool> ready = poll_files(files);
    for (const auto& other : others_) {
      if (!other || !other->lost_idle()) continue;
      if (other->loss() == RemoteHost::ended)
        throw Error("{} has ended before the job began; it says why", other->name());
      throw Error("{} {}", other->name(), other->loss());
    }
    ready.resize(first);
    std::vector<AcceptedConnection> newcomers = newcomers_.hear(ready);
    for (std::size_t i = 0; i < newcomers.size(); ++i) try {
        admit(newcomers[i]);
      } catch (const Error& error) {
        for (std::size_t later = i + 1; later < newcomers.size(); ++later)
          newcomers[later].line->send({{"refused", error.what()}});
        told_ += newcomers.size() - i;
        throw;
      }
  }

  /// An agent that does not fit ends the job, which would wait for it in vain.
  void admit(AcceptedConnection& newcomer) {
    try {
      const auto facts = read_json<AgentFacts>(newcomer.said->at("join"));
      check(facts, newcomer.holder);
      joined_[static_cast<std::size_t>(facts.agent)] = facts;
      newcomer.line->lift_limit();  // the agent is known now, and passes on what its ranks say
      others_[static_cast<std::size_t>(facts.agent)] = std::make_unique<RemoteHost>(
          std::move(newcomer.line), facts.name(),
          AgentWait{.interrupted = start_.interrupted,
                    .say = start_.say,
                    .address = keyed(start_.rendezvous) ? facts.address : ""});
    } catch (const nlohmann::json::exception&) {
      newcomers_.refuse(newcomer, "its line does not say who it is");
    } catch (const Error& error) {
      newcomer.line->send({{"refused", error.what()}});
      throw;
    }
  }

  void check(const AgentFacts& facts, const std::optional<ps::KeyHolder>& holder) const {
    check_fits(start_.facts, facts);
    if (facts.agent < 1 || facts.agent >= start_.facts.agents)
      throw Error("{} of a job of {} processes cannot be", facts.name(), start_.facts.agents);
    if (const auto& there = joined_[static_cast<std::size_t>(facts.agent)])
      throw Error("{} (process {}) and {} (process {}) have the same number", there->name(),
                  there->process, facts.name(), facts.process);
    if (holder && holder->worker != facts.agent)
      throw Error("{} has the key of worker {}; every agent needs the key with its number",
                  facts.name(), holder->worker);
  }

  const JobStart& start_;
  int port_;
  Refusals refusals_;
  PendingConnections newcomers_;
  std::vector<std::optional<AgentFacts>> joined_;  // by agent
  std::vector<std::unique_ptr<RemoteHost>> others_;
  bool said_late_ = false;
  std::size_t told_ = 0;  // newcomers that know already why the job does not begin
};

Job::Job(const JobStart& start)
    : environment_(start.program.environment), own_(start.program, start.facts.address) {
  const int streams = start.facts.agents + static_cast<int>(most_unknown);
  listener_ = listen_for_job(start.rendezvous, "", start.facts.agents, streams, start.unheard_s);
  start.on_listening(listener_->port());
  Muster muster(start, *listener_);
  muster.wait();
  listener_->close();
  agents_ = muster.here();
  others_ = std::move(muster).others();
  others_.erase(others_.begin());  // this process
}

std::vector<RankHost*> Job::hosts() {
  std::vector<RankHost*> out = {&own_};
  for (const auto& other : others_) out.push_back(other.get());
  return out;
}

std::unique_ptr<RunSidecar> Job::sidecar(const RunPlan& plan) {
  const auto library = mpi_of(plan);
  if (!library) return nullptr;
  return std::make_unique<MpiWorld>(plan, *library, hosts(), environment_);
}

std::vector<AgentDevices> Job::devices(const std::string& kind) const {
  std::vector<AgentDevices> out(agents_.size());
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
    if (agents_[agent].slots == 0) continue;
    if (agent == 0) {
      out[agent] = devices_of_this_process(kind);
      continue;
    }
    if (others_[agent - 1]->lost()) {
      out[agent].cause = "its agent cannot be reached any more";
      continue;
    }
    const auto said =
        others_[agent - 1]->ask({{"devices", kind}}, "looks at its devices", environment_timeout_s);
    said.at("seen").get_to(out[agent].seen);
    said.at("cause").get_to(out[agent].cause);
  }
  return out;
}

void Job::check_mpi(const std::vector<RunPlan>& runs) const {
  std::set<InterHostBackend> libraries;
  for (const RunPlan& run : runs)
    if (const auto library = mpi_of(run)) libraries.insert(*library);
  for (const InterHostBackend library : libraries)
    for (const auto& other : others_) {
      const auto cause = other->ask({{"mpi", name_of(library)}}, "loads its MPI", mpi_timeout_s)
                             .get<std::string>();
      if (!cause.empty()) throw Error("{}: {}", other->name(), cause);
    }
}

void Job::check_data(const std::vector<RunPlan>& runs) const {
  const std::string here = digest_of_data(runs);
  const nlohmann::json asked = readers_of(runs);
  for (const auto& other : others_) {
    const auto there =
        other->ask({{"data", asked}}, "reads its data", data_timeout_s).get<std::string>();
    if (there != here)
      throw Error(
          "{} reads data with digest {}, but {} reads data with digest {}; copy the same files to "
          "all hosts",
          other->name(), there, agents_.front().name(), here);
  }
}

nlohmann::ordered_json Job::environment(int agent, bool gpus) const {
  RemoteHost& other = *others_.at(static_cast<std::size_t>(agent) - 1);
  return other.ask({{"environment", {{"gpus", gpus}}}}, "looks at its environment",
                   environment_timeout_s);
}

std::string Job::lost() const {
  std::vector<std::string> names;
  for (const auto& other : others_)
    if (other->lost()) names.push_back(other->name());
  return fmt::format("{}", fmt::join(names, ", "));
}

RunPlan Job::place_on_left(const RunPlan& run, bool moves) const {
  std::set<int> gone;
  for (std::size_t other = 0; other < others_.size(); ++other)
    if (others_[other]->lost_idle() || others_[other]->lost())
      gone.insert(static_cast<int>(other) + 1);
  if (!moves)
    throw Error(
        "{}; with faults.least_world a run goes on with fewer workers; without it, start a new job "
        "with --resume",
        words_for_left(agents_, gone));
  return runner::place_on_left(run, agents_, gone,
                               [this](const std::string& kind) { return devices(kind); });
}

bool Job::lost_idle() const {
  bool lost = false;
  for (const auto& other : others_) lost |= other->lost_idle();
  return lost;
}

}  // namespace ringside::runner
