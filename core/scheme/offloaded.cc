#include "core/scheme/offloaded.h"

#include <algorithm>
#include <utility>

namespace ringside {

OffloadedOptimizer::OffloadedOptimizer(HostSide& host, Timeline& timeline, const Tensor& parameters,
                                       DType gradients, bool parameters_on_host, const Make& make)
    : host_(host), timeline_(timeline), parameters_on_host_(parameters_on_host) {
  Device& device = host.device();
  parameters_ = parameters_on_host ? parameters
                                   : device.tensor({parameters.count()}, MemoryKind::parameter,
                                                   parameters.dtype());
  gradients_ = device.tensor({parameters.count()}, MemoryKind::gradient, gradients);
  const HostTaskPtr fetched = parameters_on_host ? nullptr : host.fetch(parameters, parameters_);
  // The lane owns what it works with: a simulated rank may end while it waits.
  const auto made = std::make_shared<std::shared_ptr<Optimizer>>();
  host.run([made, make, &device, own = parameters_] { *made = make(device, own); }, fetched)
      ->wait();
  inner_ = *made;
}

std::vector<double> OffloadedOptimizer::measure(int round, const ParameterRange& range,
                                                const StepInfo& info) {
  const auto total = std::make_shared<std::vector<double>>(sums(round));
  std::vector<HostTaskPtr> tasks;
  each_piece(range, [&](const Piece& piece) {
    const auto add = [inner = inner_, own = on_host(piece.own), round, info, total] {
      const std::vector<double> part = inner->measure(round, own, info);
      std::transform(part.begin(), part.end(), total->begin(), total->begin(), std::plus<>());
    };
    tasks.push_back(host_.run(add, piece.fetched));
  });
  for (const HostTaskPtr& task : tasks) task->wait();
  return *total;
}

bool OffloadedOptimizer::settle(int round, std::span<const double> totals, const StepInfo& info) {
  const bool finite = inner_->settle(round, totals, info);
  if (!finite) pieces_.clear();  // they have been measured, so nothing is under way
  return finite;
}

void OffloadedOptimizer::expect(const ParameterRange& range, const StepInfo& info) {
  const bool updates = rounds() == 0;
  each_piece(range, [&](Piece& piece) {
    if (updates) begin_update(piece, info);
  });
}

void OffloadedOptimizer::update(const ParameterRange& range, const StepInfo& info) {
  each_piece(range, [&](Piece& piece) { begin_update(piece, info); });
}

void OffloadedOptimizer::finish(std::int64_t begin, std::int64_t count) {
  auto piece = pieces_.lower_bound(begin);
  if (piece != pieces_.begin() && end_of(std::prev(piece)->second) > begin) --piece;
  const auto end = pieces_.lower_bound(begin + count);
  if (piece == end) return;
  const auto span = timeline_.scope(Activity::exposed, "wait for the host's optimizer");
  for (; piece != end; piece = pieces_.erase(piece)) finish(piece->second);
}

void OffloadedOptimizer::finish(const Piece& piece) {
  const auto wait = [this](const HostTaskPtr& copy, const char* name, const Tensor& copied) {
    copy->wait();
    const auto [begin, end] = copy->span();
    timeline_.add(Activity::communication, name, {begin}, {end},
                  {.track = "host", .bytes = static_cast<std::int64_t>(copied.bytes())});
  };
  wait(piece.fetched, "gradients to the host", piece.own.gradients);
  if (piece.updated) piece.updated->wait();
  if (piece.stored) wait(piece.stored, "parameters to the device", piece.own.parameters);
}

std::int64_t OffloadedOptimizer::end_of(const Piece& piece) {
  return piece.own.begin + piece.own.gradients.count();
}

ParameterRange OffloadedOptimizer::on_host(const ParameterRange& own) const {
  const std::int64_t count = own.gradients.count();
  return {own.begin, parameters_.range(own.begin, count), gradients_.range(own.begin, count)};
}

void OffloadedOptimizer::each_piece(const ParameterRange& range,
                                    const std::function<void(Piece&)>& visit) {
  const std::int64_t end = range.begin + range.gradients.count();
  for (std::int64_t at = range.begin; at < end;) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.end() || piece->first > at) {
      const std::int64_t next = piece == pieces_.end() ? end : std::min(end, piece->first);
      const std::int64_t count = std::min(next - at, piece_elements), from = at - range.begin;
      Piece fetched{{at, range.parameters.range(from, count), range.gradients.range(from, count)}};
      fetched.fetched = host_.fetch(fetched.own.gradients, on_host(fetched.own).gradients);
      piece = pieces_.emplace(at, std::move(fetched)).first;
    }
    visit(piece->second);
    at = end_of(piece->second);
  }
}

void OffloadedOptimizer::begin_update(Piece& piece, const StepInfo& info) {
  if (piece.updated) return;
  const ParameterRange own = on_host(piece.own);
  piece.updated =
      host_.run([inner = inner_, own, info] { inner->update(own, info); }, piece.fetched);
  if (!parameters_on_host_)
    piece.stored = host_.store(own.parameters, piece.own.parameters, piece.updated);
}

}  // namespace ringside
