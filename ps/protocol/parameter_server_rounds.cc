// The rounds of sums over the whole model that come before an update.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/parameter_server.h"

namespace ringside::ps {

ParameterServer::Rounds& ParameterServer::rounds_of_step(const Header& header) {
  if (optimizer_rounds() == 0) throw Error("this server's optimizer needs no sums over the model");
  const auto scale = static_cast<float>(header.scalar);
  if (!(std::isfinite(scale) && scale > 0))
    throw Error("the loss scale is {}; it must be finite and above 0", header.scalar);
  const bool late = header.step == last_rounds_.step && !last_rounds_.totals.empty();
  if (!late && header.step != rounds_.step)
    throw Error("the message is about sums of step {}, but sums of step {} are due", header.step,
                rounds_.step);
  Rounds& rounds = late ? last_rounds_ : rounds_;
  if (std::any_of(rounds.asked.begin(), rounds.asked.end(), [](auto n) { return n > 0; }) &&
      rounds.loss_scale != scale)
    throw Error("the loss scale is {}, but another worker's is {}", scale, rounds.loss_scale);
  rounds.loss_scale = scale;
  return rounds;
}

std::vector<double> ParameterServer::totals_in(const Header& header, std::int64_t round,
                                               const std::vector<Tensor>& frames) const {
  const auto count = static_cast<std::int64_t>(optimizer_->sums(static_cast<int>(round)));
  if (frames.size() != 1 || frames[0].dtype() != DType::f64 || frames[0].count() != count)
    throw Error("the message must have one frame of {} fp64 totals of round {} of step {}", count,
                round, header.step);
  std::vector<double> totals(static_cast<std::size_t>(count));
  device().read(frames[0], std::as_writable_bytes(std::span(totals)));
  return totals;
}

Replies ParameterServer::measure(int worker, const Header& header,
                                 const std::vector<Tensor>& frames) {
  Rounds& rounds = rounds_of_step(header);
  const auto w = static_cast<std::size_t>(worker);
  const std::int64_t round = header.micro_batch;
  if (rounds.settled[w] || round != static_cast<std::int64_t>(rounds.asked[w]) ||
      round >= optimizer_->rounds())
    throw Error(
        "the worker asked for round {} of step {}, but so far it has asked for {} of {} rounds{} "
        "(rounds are counted from 0)",
        round, header.step, rounds.asked[w], optimizer_->rounds(),
        rounds.settled[w] ? " and settled the step" : "");
  if (&rounds == &last_rounds_ && rounds.asked[w] >= rounds.sums.size())
    throw Error("round {} of step {} is over", round, header.step);
  if (round == 0 && !frames.empty())
    throw Error("a message about the first round must have no totals");
  if (round > 0) {
    if (rounds.sums.size() < rounds.asked[w])
      throw Error("the worker sent totals before this server has measured its sums");
    take_totals(rounds, static_cast<std::size_t>(round - 1), totals_in(header, round - 1, frames));
  }
  ++rounds.asked[w];
  measures_.push_back({worker, {reply_to(header), {}}});
  return answer_measures();
}

/// Where workers push different chunks, this server may have all gradients of a step before a
/// worker that pushes none of them has sent its last totals of the step before. If another step
/// began and ended before they come, these totals would be about a step that the server no longer
/// keeps.
bool ParameterServer::may_measure() const {
  if (gathered_ != chunks_.size()) return false;
  return chunks_.front().chunk().group == 1 ||
         std::ranges::all_of(last_rounds_.settled, std::identity{});
}

Replies ParameterServer::answer_measures() {
  Replies replies;
  std::vector<Reply> waiting;
  for (Reply& reply : measures_) {
    const auto round = static_cast<std::size_t>(reply.message.header.micro_batch);
    Rounds& rounds = reply.message.header.step == rounds_.step ? rounds_ : last_rounds_;
    if (round == rounds.sums.size() && may_measure())
      rounds.sums.push_back(
          optimizer_->measure(static_cast<int>(round), {0, parameters_, sums_},
                              {.step = rounds.step, .loss_scale = rounds.loss_scale}));
    if (round >= rounds.sums.size()) {
      waiting.push_back(std::move(reply));
      continue;
    }
    const std::vector<double>& sums = rounds.sums[round];
    const Tensor frame = device().tensor({static_cast<std::int64_t>(sums.size())},
                                         MemoryKind::communication, DType::f64);
    device().write(frame, std::as_bytes(std::span(sums)));
    reply.message.frames = {frame};
    replies.push_back(std::move(reply));
  }
  measures_ = std::move(waiting);
  return replies;
}

void ParameterServer::take_totals(Rounds& rounds, std::size_t round, std::vector<double> totals) {
  if (round < rounds.totals.size()) {
    const auto same = [](double a, double b) {
      return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
    };
    if (!std::equal(totals.begin(), totals.end(), rounds.totals[round].begin(), same))
      throw Error("the totals of round {} of step {} differ from another worker's", round,
                  rounds.step);
    return;
  }
  if (overflowed(config_.skips_steps(), static_cast<int>(round), totals))
    throw Error(
        "the totals of round {} are not finite, so step {} has no further rounds, but the worker "
        "asked for one",
        round, rounds.step);
  optimizer_->settle(static_cast<int>(round), totals,
                     {.step = rounds.step, .loss_scale = rounds.loss_scale});
  rounds.totals.push_back(std::move(totals));
}

Replies ParameterServer::settle(int worker, const Header& header,
                                const std::vector<Tensor>& frames) {
  Rounds& rounds = rounds_of_step(header);
  const auto w = static_cast<std::size_t>(worker);
  const std::int64_t round = header.micro_batch;
  if (rounds.settled[w] || round != static_cast<std::int64_t>(rounds.asked[w]) - 1 ||
      rounds.sums.size() < rounds.asked[w])
    throw Error(
        "the worker settled round {} (counted from 0) of step {}, but so far it has asked for {} "
        "rounds{}, and the server has measured {}",
        round, header.step, rounds.asked[w], rounds.settled[w] ? " and settled the step" : "",
        rounds.sums.size());
  std::vector<double> totals = totals_in(header, round, frames);
  const bool over = overflowed(config_.skips_steps(), static_cast<int>(round), totals);
  if (!over && round + 1 < optimizer_->rounds())
    throw Error("round {} of step {} is not the last round", round, header.step);
  const bool first = static_cast<std::size_t>(round) == rounds.totals.size();
  if (first && over) {
    optimizer_->settle(static_cast<int>(round), totals,
                       {.step = rounds.step, .loss_scale = rounds.loss_scale});
    rounds.totals.push_back(std::move(totals));
  } else {
    take_totals(rounds, static_cast<std::size_t>(round), std::move(totals));
  }
  rounds.settled[w] = true;
  return first ? end_rounds(!over) : answer_measures();
}

Replies ParameterServer::end_rounds(bool finite) {
  std::vector<std::int64_t> pushes;
  for (auto& [index, flows] : std::exchange(flows_, {}))
    pushes.insert(pushes.end(), flows.begin(), flows.end());
  if (finite)
    update({0, parameters_, sums_}, {.step = rounds_.step, .loss_scale = rounds_.loss_scale},
           rounds_.step >= config_.warmup, std::move(pushes));
  gathered_ = 0;
  Rounds next{.step = rounds_.step + 1,
              .asked = std::vector<std::size_t>(rounds_.asked.size()),
              .settled = std::vector<bool>(rounds_.asked.size())};
  last_rounds_ = std::exchange(rounds_, std::move(next));
  Replies replies;
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    chunks_[index].updated();
    for (Reply& reply : answer_readers(index)) replies.push_back(std::move(reply));
  }
  return replies;
}

}  // namespace ringside::ps
