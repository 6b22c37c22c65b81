#include "peer/schemes/local_sgd.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/plan/host_workers.h"
#include "peer/schemes/consensus_distance.h"
#include "peer/schemes/local_scheme.h"

namespace ringside::peer {
namespace {

class LocalSgd final : public LocalRule {
 public:
  LocalSgd(const RuleContext& context, const LocalSgdOptions& options)
      : LocalRule(context), options_(options) {}

  std::vector<Fragment> fragments() const override {
    std::vector<Fragment> out = LocalRule::fragments();
    for (std::size_t m = 1; options_.average_moments && m <= context().moments; ++m)
      out.push_back({0, out[0].count, m});
    return out;
  }
  bool gives(std::size_t, std::int64_t done) const override {
    return averages_all(done) || (options_.group > 1 && done % options_.group_every == 0);
  }
  int sum_group(std::int64_t done) const override {
    const std::int64_t workers = context().workers;
    return static_cast<int>(averages_all(done) ? workers : std::min(options_.group, workers));
  }

  std::vector<int> groups() const override {
    if (options_.group == 1 || options_.group_every == options_.sync_every) return {};
    return {static_cast<int>(options_.group)};
  }

  void attach(const Tensor& values) override {
    if (options_.distance) distance_.emplace(context().device, values.count());
  }

  void give(const Fragment&, const Tensor& values, const Tensor& message) override {
    kernels().copy({.in = values, .out = message});
  }

  /// The replica becomes the mean of all replicas, or of those of its group.
  void take(const Fragment& fragment, const Received& received, const Tensor& values) override {
    const Tensor& sum = received.messages[0];
    const float share = 1.0F / static_cast<float>(received.summed);
    if (distance_ && fragment.moment == 0 && received.summed == context().workers)
      distance_->measure(values, sum, share);
    kernels().blend({.in = sum, .out = values, .in_scale = share});
  }

  std::vector<SchemeFigure> figures() const override {
    return distance_ ? distance_->figures() : std::vector<SchemeFigure>();
  }

 private:
  bool averages_all(std::int64_t done) const {
    return done <= options_.start_step || done % options_.sync_every == 0 ||
           done == context().steps;
  }

  LocalSgdOptions options_;
  std::optional<ConsensusDistance> distance_;
};

/// Says how many workers are a group if those of a host are.
void settle_groups(Options& options, const std::vector<int>& hosts) {
  LocalSgdOptions own = options.as<LocalSgdOptions>();
  if (own.group != 0) return;
  const std::optional<int> group = workers_of_each_host(hosts);
  if (!group)
    throw Error(
        "scheme.local_sgd.group = 0 is for hosts with equally many workers, of which the last may "
        "have fewer, and here {} follow each other on a host; give the size of groups, or start "
        "equally many on each host",
        fmt::join(consecutive_workers(hosts), ", "));
  own.group = *group;
  options = own;
}

void check(const LocalSgdOptions& options, const RunPlan&) {
  if (options.group > 1 && options.sync_every % options.group_every != 0)
    throw Error(
        "scheme.local_sgd.group_every = {} does not divide scheme.local_sgd.sync_every = {}; "
        "choose a divisor",
        options.group_every, options.sync_every);
}

/// The last group of several may be smaller, so the first is the busiest.
double minimum_bytes(const LocalSgdOptions& options, const StepShape& shape) {
  const int moments = options.average_moments ? shape.moments : 0;
  const std::int64_t elements = shape.parameters * (1 + moments);
  const double all = sum_bytes(shape.world, elements, options.sync_every);
  if (options.group == 1) return all;
  const int group = static_cast<int>(std::min<std::int64_t>(options.group, shape.world));
  return all + sum_bytes(group, elements, options.group_every) -
         sum_bytes(group, elements, options.sync_every);
}

}  // namespace

Fields fields_of(LocalSgdOptions& options) {
  return {{"sync_every", &options.sync_every, "number of steps from one averaging to the next",
           Range::positive},
          {"start_step", &options.start_step,
           "until so many steps are done, replicas are averaged after every step (post-local SGD)",
           Range::not_negative},
          {"group", &options.group,
           "consecutive workers that average their replicas among themselves more often "
           "(hierarchical local SGD); 0: those of one host; 1: none",
           Range::not_negative},
          {"group_every", &options.group_every,
           "number of steps from one averaging in groups to the next; it must divide sync_every",
           Range::positive},
          {"average_moments", &options.average_moments,
           "average the moments of the optimizers too; false: each keeps its own"},
          {"distance", &options.distance, "also measure how far replicas are from their mean"}};
}

std::unique_ptr<LocalRule> make_local_sgd_rule(const RuleContext& context,
                                               const LocalSgdOptions& options) {
  return std::make_unique<LocalSgd>(context, options);
}

SchemeInfo local_sgd_info() {
  using Own = LocalSgdOptions;
  auto r = local_scheme<LocalSgd>(
      "local_sgd", "local SGD: peers average their replicas every few steps", "average", Own{});
  r.former_name = "averaging";
  r.meets_every = [](const Options& options) -> std::int64_t {
    const Own& own = options.as<Own>();
    return own.group == 1 ? own.sync_every : 0;
  };
  r.tried = {{"every_step", Own{.sync_every = 1}},
             {"with_distance", Own{.distance = true}},
             {"post_local", Own{.start_step = 2}},
             {"in_groups", Own{.sync_every = 4, .group = 2}},
             {"by_host", Own{.sync_every = 4, .group = 0, .group_every = 2}},
             {"with_moments", Own{.sync_every = 2, .average_moments = true}},
             {"groups_with_moments", Own{.sync_every = 4,
                                         .start_step = 1,
                                         .group = 2,
                                         .group_every = 2,
                                         .average_moments = true,
                                         .distance = true}}};
  const std::string every = "scheme.local_sgd.sync_every=1", sgd = "optimizer.kind=sgd";
  r.identities = {
      {{every, sgd}, "single"},
      {{every, sgd, "scheme.local_sgd.average_moments=true"}, "single"},
      {{"scheme.local_sgd.group=64", sgd}, "single"},
      {{"scheme.local_sgd.group=2", "scheme.local_sgd.group_every=4", "scheme.diloco.sync_every=4",
        "scheme.diloco.outer_lr=1", "scheme.diloco.outer_momentum=0"},
       "diloco"}};
  r.settle = settle_groups;
  r.check = with_own<Own>(check);
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return minimum_bytes(options.as<Own>(), shape);
  };
  return r;
}

}  // namespace ringside::peer
