#include "ps/protocol/worker_sums.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/error.h"

namespace ringside::ps {

WorkerSums::WorkerSums(Device& device, int workers, std::uint64_t token)
    : device_(device),
      token_(token),
      left_(static_cast<std::size_t>(workers)),
      summands_(static_cast<std::size_t>(workers)) {}

Replies WorkerSums::take(int worker, const Header& header, const std::vector<Tensor>& frames) {
  std::optional<std::vector<double>>& own = summands_[static_cast<std::size_t>(worker)];
  if (header.step != done_)
    throw Error("the worker sent values for sum {}, but the next sum is number {}", header.step,
                done_);
  if (own) throw Error("the worker has given its values for sum {} already", header.step);
  if (frames.size() > 1 || (frames.size() == 1 && frames[0].dtype() != DType::f64))
    throw Error("the message must have one frame of fp64 values, or none");
  std::vector<double> values(frames.empty() ? 0 : static_cast<std::size_t>(frames[0].count()));
  for (const auto& other : summands_)
    if (other && other->size() != values.size())
      throw Error("sum {}: the worker gave {} values, another worker gave {}", header.step,
                  values.size(), other->size());
  if (!frames.empty()) device_.read(frames[0], std::as_writable_bytes(std::span(values)));
  own = std::move(values);
  return end();
}

Replies WorkerSums::leave(int worker) {
  left_[static_cast<std::size_t>(worker)] = true;
  summands_[static_cast<std::size_t>(worker)].reset();
  const bool under_way =
      std::ranges::any_of(summands_, [](const auto& summand) { return summand.has_value(); });
  return under_way ? end() : Replies{};
}

Replies WorkerSums::end() {
  std::vector<double> total;
  for (std::size_t w = 0; w < summands_.size(); ++w)
    if (summands_[w])
      total.resize(summands_[w]->size());
    else if (!left_[w])
      return {};
  for (auto& summand : summands_) {
    if (!summand) continue;
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += (*summand)[i];
    summand.reset();
  }
  std::vector<Tensor> sums;
  if (!total.empty()) {
    sums.push_back(device_.tensor({static_cast<std::int64_t>(total.size())},
                                  MemoryKind::communication, DType::f64));
    device_.write(sums[0], std::as_bytes(std::span(total)));
  }
  Replies replies;
  for (std::size_t to = 0; to < left_.size(); ++to) {
    if (left_[to]) continue;
    Header header;
    header.token = token_;
    header.kind = Kind::sum;
    header.reply = true;
    header.step = done_;
    header.worker = static_cast<std::int32_t>(to);
    replies.push_back({static_cast<int>(to), {header, sums}});
  }
  ++done_;
  return replies;
}

}  // namespace ringside::ps
