#include "ps/protocol/optimizer_rounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "core/base/error.h"

namespace ringside::ps {

OptimizerRounds::OptimizerRounds(Optimizer& optimizer, Device& device, const Of& of)
    : optimizer_(optimizer),
      device_(device),
      of_(of),
      now_{.asked = std::vector<std::size_t>(static_cast<std::size_t>(of.workers)),
           .settled = std::vector<bool>(static_cast<std::size_t>(of.workers))} {}

OptimizerRounds::Step& OptimizerRounds::step_of(const Header& header) {
  const auto scale = static_cast<float>(header.scalar);
  if (!(std::isfinite(scale) && scale > 0))
    throw Error("the loss scale is {}; it must be finite and above 0", header.scalar);
  const bool late = header.step == last_.step && !last_.totals.empty();
  if (!late && header.step != now_.step)
    throw Error("the message is about sums of step {}, but sums of step {} are due", header.step,
                now_.step);
  Step& step = late ? last_ : now_;
  if (std::any_of(step.asked.begin(), step.asked.end(), [](auto n) { return n > 0; }) &&
      step.loss_scale != scale)
    throw Error("the loss scale is {}, but another worker's is {}", scale, step.loss_scale);
  step.loss_scale = scale;
  return step;
}

std::vector<double> OptimizerRounds::totals_in(const Header& header, std::int64_t round,
                                               const std::vector<Tensor>& frames) const {
  const auto count = static_cast<std::int64_t>(optimizer_.sums(static_cast<int>(round)));
  if (frames.size() != 1 || frames[0].dtype() != DType::f64 || frames[0].count() != count)
    throw Error("the message must have one frame of {} fp64 totals of round {} of step {}", count,
                round, header.step);
  std::vector<double> totals(static_cast<std::size_t>(count));
  device_.read(frames[0], std::as_writable_bytes(std::span(totals)));
  return totals;
}

void OptimizerRounds::measure(int worker, const Header& header, const std::vector<Tensor>& frames) {
  Step& step = step_of(header);
  const auto w = static_cast<std::size_t>(worker);
  const std::int64_t round = header.micro_batch;
  if (step.settled[w] || round != static_cast<std::int64_t>(step.asked[w]) ||
      round >= optimizer_.rounds())
    throw Error(
        "the worker asked for round {} of step {}, but so far it has asked for {} of {} rounds{} "
        "(rounds are counted from 0)",
        round, header.step, step.asked[w], optimizer_.rounds(),
        step.settled[w] ? " and settled the step" : "");
  if (&step == &last_ && step.asked[w] >= step.sums.size())
    throw Error("round {} of step {} is over", round, header.step);
  if (round == 0 && !frames.empty())
    throw Error("a message about the first round must have no totals");
  if (round > 0) {
    if (step.sums.size() < step.asked[w])
      throw Error("the worker sent totals before this server has measured its sums");
    take_totals(step, static_cast<std::size_t>(round - 1), totals_in(header, round - 1, frames));
  }
  ++step.asked[w];
  waiting_.push_back({worker, {reply_to(header), {}}});
}

/// Where workers push different chunks, this server may have all gradients of a step before a
/// worker that pushes none of them has sent its last totals of the step before. If another step
/// began and ended before they come, these totals would be about a step that the server no longer
/// keeps.
bool OptimizerRounds::may_measure() const {
  if (gathered_ != of_.chunks) return false;
  return of_.all_push_all || std::ranges::all_of(last_.settled, std::identity{});
}

Replies OptimizerRounds::answer(const ParameterRange& all) {
  Replies replies;
  std::vector<Reply> waiting;
  for (Reply& reply : waiting_) {
    const auto round = static_cast<std::size_t>(reply.message.header.micro_batch);
    Step& step = reply.message.header.step == now_.step ? now_ : last_;
    if (round == step.sums.size() && may_measure())
      step.sums.push_back(optimizer_.measure(static_cast<int>(round), all, step.info()));
    if (round >= step.sums.size()) {
      waiting.push_back(std::move(reply));
      continue;
    }
    const std::vector<double>& sums = step.sums[round];
    const Tensor frame = device_.tensor({static_cast<std::int64_t>(sums.size())},
                                        MemoryKind::communication, DType::f64);
    device_.write(frame, std::as_bytes(std::span(sums)));
    reply.message.frames = {frame};
    replies.push_back(std::move(reply));
  }
  waiting_ = std::move(waiting);
  return replies;
}

void OptimizerRounds::take_totals(Step& step, std::size_t round, std::vector<double> totals) {
  if (round < step.totals.size()) {
    const auto same = [](double a, double b) {
      return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
    };
    if (!std::equal(totals.begin(), totals.end(), step.totals[round].begin(), same))
      throw Error("the totals of round {} of step {} differ from another worker's", round,
                  step.step);
    return;
  }
  if (overflowed(of_.skips, static_cast<int>(round), totals))
    throw Error(
        "the totals of round {} are not finite, so step {} has no further rounds, but the worker "
        "asked for one",
        round, step.step);
  optimizer_.settle(static_cast<int>(round), totals, step.info());
  step.totals.push_back(std::move(totals));
}

std::optional<bool> OptimizerRounds::settle(int worker, const Header& header,
                                            const std::vector<Tensor>& frames) {
  Step& step = step_of(header);
  const auto w = static_cast<std::size_t>(worker);
  const std::int64_t round = header.micro_batch;
  if (step.settled[w] || round != static_cast<std::int64_t>(step.asked[w]) - 1 ||
      step.sums.size() < step.asked[w])
    throw Error(
        "the worker settled round {} (counted from 0) of step {}, but so far it has asked for {} "
        "rounds{}, and the server has measured {}",
        round, header.step, step.asked[w], step.settled[w] ? " and settled the step" : "",
        step.sums.size());
  std::vector<double> totals = totals_in(header, round, frames);
  const bool over = overflowed(of_.skips, static_cast<int>(round), totals);
  if (!over && round + 1 < optimizer_.rounds())
    throw Error("round {} of step {} is not the last round", round, header.step);
  const bool first = static_cast<std::size_t>(round) == step.totals.size();
  if (first && over) {
    optimizer_.settle(static_cast<int>(round), totals, step.info());
    step.totals.push_back(std::move(totals));
  } else {
    take_totals(step, static_cast<std::size_t>(round), std::move(totals));
  }
  step.settled[w] = true;
  if (!first) return {};
  return !over;
}

void OptimizerRounds::end_step() {
  gathered_ = 0;
  Step next{.step = now_.step + 1,
            .asked = std::vector<std::size_t>(now_.asked.size()),
            .settled = std::vector<bool>(now_.asked.size())};
  last_ = std::exchange(now_, std::move(next));
}

}  // namespace ringside::ps
