#include "core/train/whole_model.h"

#include <algorithm>

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

}  // namespace ringside
