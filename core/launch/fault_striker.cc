#include "core/launch/fault_striker.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "core/base/error.h"
#include "core/num/random.h"

namespace ringside {

FaultStriker::FaultStriker(const RunPlan& plan, double now, std::function<void(int, int)> signal,
                           std::function<void(const std::string&)> say,
                           std::function<void(int, const std::string&)> tell)
    : plan_(plan),
      faults_(plan.cluster ? FaultsConfig() : plan.faults),
      signal_(std::move(signal)),
      say_(std::move(say)),
      tell_(std::move(tell)) {
  for (const std::string& text : faults_.plan) listed_.push_back(fault_from(text));
  if (!faults_.rate.empty()) draw(now);
}

void FaultStriker::draw(double now) {
  constexpr std::uint32_t faults = 0x6661756cU;  // no other stream of random numbers has this key
  const auto seed = static_cast<std::uint64_t>(faults_.seed);
  const auto number = static_cast<std::uint64_t>(faults_.drawn);
  const auto bits =
      philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0, 0},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ faults});
  const double uniform = (static_cast<double>(bits[0]) + 1) / 4294967296.0;  // above 0, at most 1
  kill_at_ = now - std::log(uniform) / kills_per_s(faults_.rate);
  victim_ = static_cast<int>(std::uint64_t{bits[1]} * plan_.ranks.size() >> 32);
}

void FaultStriker::strike(const Fault& fault, int rank, const std::string& text, double now) {
  say_("fault: " + text + "\n");
  if (fault.kind == Fault::Kind::add || fault.kind == Fault::Kind::remove) return change_(fault);
  if (is_own_of_server(fault)) tell_(fault.number, text.substr(0, text.find(' ')));
  if (fault.kind != Fault::Kind::kill && fault.kind != Fault::Kind::stop) return;  // the rank knows
  signal_(rank, fault.kind == Fault::Kind::kill ? SIGKILL : SIGSTOP);
  if (fault.kind == Fault::Kind::stop) continued_.emplace_back(now + fault.amount, rank);
}

void FaultStriker::note_progress(int rank, std::int64_t steps, double now) {
  for (std::size_t i = 0; i < listed_.size(); ++i) {
    const Fault& fault = listed_[i];
    const auto index = static_cast<std::int64_t>(i);
    const int struck = struck_rank(plan_, fault);
    if (steps < fault.step || struck < 0 || (!fault.server && struck != rank) ||
        std::ranges::find(faults_.struck, index) != faults_.struck.end())
      continue;
    faults_.struck.push_back(index);
    strike(fault, struck, faults_.plan[i], now);
  }
}

void FaultStriker::attend(double now) {
  std::erase_if(continued_, [&](const std::pair<double, int>& one) {
    if (now < one.first) return false;
    signal_(one.second, SIGCONT);
    return true;
  });
  if (faults_.rate.empty() || now < kill_at_) return;
  ++faults_.drawn;
  strike({}, victim_, fmt::format("kill rank {} (faults.rate)", victim_), now);
  draw(now);
}

}  // namespace ringside
