#include "core/plan/faults.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <string_view>

#include "core/base/error.h"
#include "core/plan/device_traits.h"
#include "core/plan/mesh.h"

namespace ringside {
namespace {

constexpr double longest_stop_s = 86'400, most_slow = 1000, most_kills_per_s = 10;

/// Reads a whole word as a number; returns false if it is none.
template <class Number>
bool read_number(const std::string& word, Number& out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size();
}

/// Reads words that follow each other, one after the other.
class Words {
 public:
  explicit Words(const std::string& text) : in_(text) {}
  bool are(std::string_view expected) { return next() == expected; }
  std::string next() {
    std::string word;
    in_ >> word;
    return word;
  }
  template <class Number>
  bool number(Number& out) {
    return read_number(next(), out);
  }
  bool end() { return next().empty(); }

 private:
  std::istringstream in_;
};

/// Faults that are written "KIND ROLE N at step S".
struct PlainFault {
  std::string_view name;
  Fault::Kind kind;
  bool of_workers, of_servers;
};
constexpr PlainFault plain_faults[] = {{"kill", Fault::Kind::kill, true, true},
                                       {"hang", Fault::Kind::hang, true, true},
                                       {"poison", Fault::Kind::poison, true, false},
                                       {"flip", Fault::Kind::flip, true, false},
                                       {"cut", Fault::Kind::cut, false, true}};

/// Reads "of 4" if it comes next, and then the word after it.
bool read_of(Words& words, Fault& out, std::string& next) {
  next = words.next();
  if (out.kind != Fault::Kind::poison || next != "of") return true;
  const bool good = words.number(out.of) && out.number < out.of;
  next = words.next();
  return good;
}

bool read_fault(const std::string& text, Fault& out) {
  Words words(text);
  const std::string kind = words.next(), role = words.next();
  if (kind == "add") {
    out.kind = Fault::Kind::add;
    return role == "worker" && words.are("at") && words.are("step") && words.number(out.step) &&
           out.step >= 0 && words.end();
  }
  out.server = role == "server";
  if ((role != "worker" && role != "server") || !words.number(out.number) || out.number < 0)
    return false;
  const auto* plain = std::ranges::find(plain_faults, kind, &PlainFault::name);
  if (plain != std::end(plain_faults)) {
    out.kind = plain->kind;
    std::string at;
    return (out.server ? plain->of_servers : plain->of_workers) && read_of(words, out, at) &&
           at == "at" && words.are("step") && words.number(out.step) && out.step >= 0 &&
           words.end();
  }
  const auto step = [&](std::string_view before) {
    return words.are(before) && words.are("step") && words.number(out.step) && out.step >= 0;
  };
  if (kind == "remove") {
    out.kind = Fault::Kind::remove;
    return !out.server && step("at") && words.end();
  }
  if (kind == "stop") {
    out.kind = Fault::Kind::stop;
    return step("at") && words.are("for") && words.number(out.amount) && words.are("s") &&
           words.end() && out.amount > 0 && out.amount <= longest_stop_s;
  }
  out.kind = Fault::Kind::slow;
  return kind == "slow" && !out.server && words.are("by") && words.number(out.amount) &&
         out.amount >= 1 && out.amount <= most_slow && step("from") && words.end();
}

void check_rate_of_cluster(const RunPlan& plan) {
  if (!plan.cluster)
    throw Error(
        "faults.rate = 'cluster' is for simulated clusters; on this machine write \"1/min\" or the "
        "like");
  const sim::FailureSpec& failures = plan.cluster->failures;
  if (failures.device_mtbf_h == 0 && failures.machine_mtbf_h == 0)
    throw Error(
        "faults.rate = 'cluster': cluster {} does not say how often its parts fail; add a table "
        "[failures] with device_mtbf_h or machine_mtbf_h to its file, or write \"3/h\" or the like",
        plan.cluster->name);
}

}  // namespace

Fault fault_from(const std::string& text) {
  Fault out;
  if (read_fault(text, out)) return out;
  throw Error(
      "faults.plan: '{}' is no fault; write \"kill worker 1 at step 10\", \"stop server 0 at step "
      "20 for 5 s\", \"slow worker 3 by 2 from step 40\", or \"at step 10\" hang either, cut a "
      "server, poison or flip a worker",
      text);
}

double kills_per_s(const std::string& rate) {
  static const std::map<std::string, double, std::less<>> seconds = {
      {"s", 1}, {"min", 60}, {"h", 3600}};
  const std::size_t slash = rate.find('/');
  double kills = 0;
  if (slash != std::string::npos && read_number(rate.substr(0, slash), kills) && kills > 0)
    if (const auto unit = seconds.find(rate.substr(slash + 1));
        unit != seconds.end() && kills / unit->second <= most_kills_per_s)
      return kills / unit->second;
  throw Error(
      "faults.rate: '{}' is no rate of at most {} a second; write \"1/min\", \"0.1/s\" or "
      "\"3/h\"",
      rate, most_kills_per_s);
}

int struck_rank(const RunPlan& plan, const Fault& fault) {
  if (fault.of > 0) return -1;
  if (fault.kind == Fault::Kind::add) return 0;  // when worker 0 has done the step
  const auto found = std::ranges::find_if(plan.ranks, [&](const RankPlan& rank) {
    return (fault.server ? rank.server : rank.worker) == fault.number;
  });
  return found == plan.ranks.end() ? -1 : found->rank;
}

bool may_be_lost(const RunPlan& plan, int rank) {
  const RankPlan& self = plan.ranks[static_cast<std::size_t>(rank)];
  return plan.expendable > 0 && self.worker > 0 && self.server < 0;
}

std::map<int, std::int64_t> lost_on_purpose(const RunPlan& plan) {
  std::vector<Fault> kills;
  for (const std::string& text : plan.faults.plan)
    if (const Fault fault = fault_from(text); fault.kind == Fault::Kind::kill && !fault.server)
      kills.push_back(fault);
  std::ranges::stable_sort(kills, {}, &Fault::step);
  std::map<int, std::int64_t> lost;
  for (const Fault& kill : kills)
    if (may_be_lost(plan, struck_rank(plan, kill)) &&
        static_cast<int>(lost.size()) < plan.expendable)
      lost.try_emplace(kill.number, kill.step);
  return lost;
}

void check_faults(const RunPlan& plan) {
  const FaultsConfig& faults = plan.faults;
  if (faults.rate == rate_of_cluster) {
    check_rate_of_cluster(plan);
  } else if (!faults.rate.empty()) {
    kills_per_s(faults.rate);
  }
  if (faults.remove_slow && faults.least_world == 0)
    throw Error(
        "faults.remove_slow: the world of the run does not change; set faults.least_world, or "
        "leave it out");
  for (const std::string& text : faults.plan) {
    const Fault fault = fault_from(text);
    const bool of_world = fault.kind == Fault::Kind::add || fault.kind == Fault::Kind::remove;
    if (of_world && faults.least_world == 0)
      throw Error("faults.plan: '{}': the world of the run does not change; set faults.least_world",
                  text);
    if (fault.kind == Fault::Kind::add) continue;
    if (plan.cluster && fault.kind != Fault::Kind::kill && fault.kind != Fault::Kind::stop &&
        fault.kind != Fault::Kind::slow)
      throw Error(
          "faults.plan: '{}': workers of a simulated run are killed, stopped and slowed alone",
          text);
    if (fault.kind == Fault::Kind::slow && !plan.cluster &&
        !device_traits(plan.device.kind).on_processor)
      throw Error("faults.plan: '{}': only workers on CPUs can be slowed", text);
    if (fault.kind == Fault::Kind::flip &&
        (plan.train.precision != Precision::fp32 || plan.train.offload != Offload::none))
      throw Error(
          "faults.plan: '{}': the next update heals parameters whose master values are elsewhere; "
          "set train.precision = \"fp32\" and leave train.offload out",
          text);
    if (fault.of > 0) continue;
    if (struck_rank(plan, fault) < 0 && !(fault.server && plan.servers == 0))
      throw Error("faults.plan: '{}': the run has {} {}s, numbered from 0", text,
                  fault.server ? plan.servers : plan.world, fault.server ? "server" : "worker");
  }
}

bool strikes_itself(const RunPlan& plan, int server) {
  const FaultsConfig& faults = plan.faults;
  for (std::size_t i = 0; i < faults.plan.size(); ++i) {
    const Fault fault = fault_from(faults.plan[i]);
    if (is_own_of_server(fault) && fault.number == server &&
        std::ranges::find(faults.struck, static_cast<std::int64_t>(i)) == faults.struck.end())
      return true;
  }
  return false;
}

Poisoned poisoned_by(const RunPlan& plan, const Fault& poison) {
  if (poison.of > 0) return {poison.number, poison.of};
  return {mesh_place(plan, poison.number).data, data_world(plan)};
}

std::vector<std::string> poisons_for_definition(const RunPlan& run) {
  std::vector<std::string> out;
  for (const std::string& text : run.faults.plan)
    if (const Fault fault = fault_from(text); fault.kind == Fault::Kind::poison) {
      const Poisoned poisoned = poisoned_by(run, fault);
      out.push_back(fmt::format("poison worker {} of {} at step {}", poisoned.worker, poisoned.of,
                                fault.step));
    }
  return out;
}

}  // namespace ringside
