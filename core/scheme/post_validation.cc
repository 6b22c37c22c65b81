#include "core/scheme/post_validation.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/scheme/exposed.h"

namespace ringside {

PostValidation::PostValidation(const RankContext& whole, std::unique_ptr<Communicator> communicator)
    : whole_(whole), communicator_(std::move(communicator)) {}

PostValidation::Message PostValidation::begin_receive(std::size_t count, int from) {
  Message out{whole_.device.tensor({static_cast<std::int64_t>(count)}, MemoryKind::communication,
                                   DType::f64)};
  out.work = communicator_->recv(out.values, from);
  return out;
}

void PostValidation::send(std::span<const double> values, int to) {
  Message& out = sent_.emplace_back();
  out.values = whole_.device.tensor({static_cast<std::int64_t>(values.size())},
                                    MemoryKind::communication, DType::f64);
  whole_.device.write(out.values, std::as_bytes(values));
  out.work = communicator_->send(out.values, to);
}

/// The sums that lie on the device; waits for it.
std::vector<double> PostValidation::values_of(const Message& message) const {
  std::vector<double> out(static_cast<std::size_t>(message.values.count()));
  whole_.device.read(message.values, std::as_writable_bytes(std::span(out)));
  return out;
}

/// Adds the sums of earlier stages to `sums`. Returns whether rank 0 goes ahead.
bool PostValidation::add_earlier(std::span<double> sums) {
  const auto span =
      whole_.timeline.traced("scalars", [] { return std::string("sums of earlier stages"); });
  const Message message = begin_receive(sums.size() + 1, communicator_->rank() - 1);
  message.work->wait();
  const std::vector<double> earlier = values_of(message);
  std::transform(sums.begin(), sums.end(), earlier.begin(), sums.begin(), std::plus<>());
  return earlier.back() != 0;
}

/// Passes partial sums on to the next rank, and totals to all others.
void PostValidation::pass_on(std::span<const double> sums, bool first_goes_ahead) {
  for (const Message& over : sent_) over.work->wait();  // of the step before
  sent_.clear();
  if (is_last())
    for (int to = 0; to < communicator_->rank(); ++to) send(sums, to);
  if (is_last()) return;
  std::vector<double> message(sums.begin(), sums.end());
  message.push_back(first_goes_ahead ? 1 : 0);
  send(message, communicator_->rank() + 1);
}

std::vector<double> PostValidation::begin(std::span<const double> own, const Leaves& leaves,
                                          EarlyUpdate& update) {
  std::vector<double> sums(own.begin(), own.end());
  const bool first_goes_ahead = communicator_->rank() == 0 ? leaves(sums) : add_earlier(sums);
  pass_on(sums, first_goes_ahead);
  Step step{.leaves = leaves};
  if (!is_last()) step.on_their_way = begin_receive(sums.size(), communicator_->size() - 1);
  const bool goes_ahead = leaves(sums) && !is_last();
  if (goes_ahead) step.update = &update;
  if (!goes_ahead && !is_last()) {
    step.on_their_way.work->wait();
    sums = values_of(std::exchange(step.on_their_way, {}));
  }
  if (!goes_ahead) step.totals = sums;
  if (goes_ahead || (first_goes_ahead && !leaves(sums))) step_ = std::move(step);
  return sums;
}

PostValidation::Verdict PostValidation::validate(
    const std::function<void(const std::function<void()>&)>& amend) {
  Step step = std::move(*step_);
  step_.reset();
  if (step.update) {
    wait_exposed(whole_.timeline, "totals of all stages", std::move(step.on_their_way.work));
    step.totals = values_of(step.on_their_way);
  }
  if (step.leaves(step.totals)) {
    step.update->confirm();
    return Verdict::right;
  }
  ++amended_;
  bool updates = true;
  amend([&] { updates = !step.update || step.update->put_right(step.totals); });
  return updates ? Verdict::amended : Verdict::undone;
}

}  // namespace ringside
