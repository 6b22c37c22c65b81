#include "core/train/whole_model.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/scheme/pipeline_group.h"

namespace ringside {
namespace {

constexpr std::int64_t most_elements = 1 << 18;

/// Calls `visit` with the pieces of a unit's range.
void each_piece(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& visit) {
  for (std::int64_t begin = 0; begin < count; begin += most_elements)
    visit(begin, std::min(most_elements, count - begin));
}

/// What the first rank of a pipeline gets from the others, between its own units.
class Gathered {
 public:
  Gathered(const RankContext& context, const WholeModelVisitor& visit)
      : context_(context), group_(*context.pipeline), visit_(visit) {}

  /// Receives all units of others before this one.
  void receive_until(std::size_t unit) {
    for (; next_ < unit; ++next_)
      each_piece(group_.unit_counts()[next_], [&](std::int64_t begin, std::int64_t count) {
        const Tensor piece = context_.device.tensor({count}, MemoryKind::communication,
                                                    parameter_dtype(context_.plan.train));
        group_.tables().recv(piece, group_.rank_of_unit(next_))->wait();
        visit_(replica_, next_, begin, piece);
      });
  }
  void own(int replica, std::size_t unit, const Tensor& values) {
    replica_ = replica;
    receive_until(unit);
    each_piece(values.count(), [&](std::int64_t begin, std::int64_t count) {
      visit_(replica, unit, begin, values.range(begin, count));
    });
    ++next_;
  }

 private:
  const RankContext& context_;
  PipelineGroup& group_;
  const WholeModelVisitor& visit_;
  int replica_ = 0;
  std::size_t next_ = 0;  // unit
};

/// The values are copied, as parameters may lie where other ranks cannot reach them.
void send_to_first(const RankContext& context, const Tensor& values) {
  each_piece(values.count(), [&](std::int64_t begin, std::int64_t count) {
    const Tensor piece = context.device.tensor({count}, MemoryKind::communication, values.dtype());
    context.device.kernels().copy({.in = values.range(begin, count), .out = piece});
    context.pipeline->tables().send(piece, 0)->wait();
  });
}

/// Calls `visit` with each running statistic, and its place among those of the whole model.
void each_statistic(const Model& model,
                    const std::function<void(const Tensor& values, std::int64_t place)>& visit) {
  std::int64_t place = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    if (model.part) place = model.part->first_statistics[u];
    for (const Unit::Statistic& statistic : model.units[u]->statistics()) {
      visit(statistic.values, place);
      place += statistic.values.count();
    }
  }
}

}  // namespace

void visit_whole_model(const RankContext& context, const Model& model, SyncScheme& scheme,
                       const WholeModelVisitor& visit) {
  std::size_t own = 0;
  if (!context.pipeline)
    return scheme.visit_parameters([&](int replica, const Unit&, const Tensor& values) {
      visit(replica, own++ % model.units.size(), 0, values);
    });
  // Without values there is nothing to see, and the pieces of a large model are very many messages.
  if (!context.device.has_values())
    return scheme.visit_parameters([](int, const Unit&, const Tensor&) {});
  if (context.pipeline->rank() > 0)
    return scheme.visit_parameters(
        [&](int, const Unit&, const Tensor& values) { send_to_first(context, values); });
  Gathered gathered(context, visit);
  scheme.visit_parameters([&](int replica, const Unit&, const Tensor& values) {
    gathered.own(replica, model.part->units[own++], values);
  });
  gathered.receive_until(context.pipeline->unit_counts().size());
}

void gather_statistics(const RankContext& context, const Model& part, Model* whole) {
  double count = 0;
  each_statistic(part, [&](const Tensor& values, std::int64_t) {
    count += static_cast<double>(values.count());
  });
  context.pipeline->sum({&count, 1});
  if (count == 0) return;
  std::vector<double> sums(static_cast<std::size_t>(count));  // each has one value besides zeros
  std::vector<float> host;
  each_statistic(part, [&](const Tensor& values, std::int64_t place) {
    host.resize(static_cast<std::size_t>(values.count()));
    context.device.read(values, std::as_writable_bytes(std::span(host)));
    std::ranges::copy(host, sums.begin() + place);
  });
  context.pipeline->sum(sums);
  if (!whole) return;
  each_statistic(*whole, [&](const Tensor& values, std::int64_t place) {
    const auto own = std::span(sums).subspan(static_cast<std::size_t>(place),
                                             static_cast<std::size_t>(values.count()));
    host.assign(own.begin(), own.end());
    context.device.write(values, std::as_bytes(std::span(host)));
  });
}

}  // namespace ringside
