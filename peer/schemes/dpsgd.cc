#include "peer/schemes/dpsgd.h"

#include <algorithm>
#include <bit>
#include <set>

#include "peer/schemes/local_rule.h"

namespace ringside::peer {
namespace {

/// The larger of the two extents of a torus: the smallest divisor that is at least the root.
int torus_width(int workers) {
  int width = 1;
  while (width * width < workers || workers % width != 0) ++width;
  return width;
}

class Dpsgd final : public LocalRule {
 public:
  Dpsgd(const RuleContext& context, const DpsgdOptions& options)
      : LocalRule(context), options_(options) {}

  bool sums() const override { return false; }
  std::vector<int> sources(int worker, std::int64_t done) const override {
    return sources_in(options_.graph, worker, context().workers, done);
  }
  bool gives(std::size_t, std::int64_t done) const override {
    return !options_.overlap || done < context().steps;  // else after the last step too
  }
  std::int64_t delay() const override { return options_.overlap ? 1 : 0; }

  void give(const Fragment&, const Tensor& values, const Tensor& message) override {
    kernels().copy({.in = values, .out = message});
  }
  /// Adds to the values what mixing changes in the message that was given: with overlap they are
  /// one update ahead of it.
  void take(const Fragment&, const Received& received, const Tensor& values) override {
    const float weight = 1.0F / static_cast<float>(received.messages.size() + 1);
    kernels().blend({.in = received.given, .out = values, .in_scale = weight - 1, .out_scale = 1});
    for (const Tensor& message : received.messages)
      kernels().blend({.in = message, .out = values, .in_scale = weight, .out_scale = 1});
  }

 private:
  DpsgdOptions options_;
};

}  // namespace

std::vector<int> sources_in(Graph graph, int worker, int workers, std::int64_t done) {
  std::set<int> out;
  const auto add = [&](int other) { out.insert((other % workers + workers) % workers); };
  if (graph == Graph::ring) {
    add(worker - 1);
    add(worker + 1);
  } else if (graph == Graph::torus) {
    const int width = torus_width(workers), height = workers / width;
    const int row = worker / width, column = worker % width;
    for (const int step : {width - 1, 1}) out.insert(row * width + (column + step) % width);
    for (const int step : {height - 1, 1}) out.insert((row + step) % height * width + column);
  } else if (graph == Graph::exponential) {
    for (int distance = 1; distance < workers; distance *= 2) add(worker - distance);
  } else if (graph == Graph::one_peer) {
    const int distances =
        std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(workers - 1))));
    add(worker - (1 << done % distances));
  } else {
    for (int other = 0; other < workers; ++other) add(other);
  }
  out.erase(worker);
  return {out.begin(), out.end()};
}

Fields fields_of(DpsgdOptions& options) {
  return {{"graph", &options.graph,
           "the neighbours of a worker: ring (the one before and the one after), torus (in two "
           "dimensions), exponential (those 1, 2, 4, ... before), one_peer (one of these in each "
           "step, in "
           "turn) or complete (all)"},
          {"overlap", &options.overlap,
           "messages move while the next step is computed, as in the paper; false: replicas are "
           "mixed after the update"}};
}

SchemeInfo dpsgd_info() {
  using Own = DpsgdOptions;
  auto r = local_scheme<Dpsgd>("dpsgd", "D-PSGD: replicas are mixed with those of neighbours",
                               "mix", Own{});
  r.tried = {{"torus", Own{.graph = Graph::torus}},
             {"exponential", Own{.graph = Graph::exponential}},
             {"one_peer", Own{.graph = Graph::one_peer}},
             {"complete_without_overlap", Own{.graph = Graph::complete, .overlap = false}}};
  r.identities = {{{"scheme.dpsgd.graph=complete", "scheme.dpsgd.overlap=false",
                    "scheme.local_sgd.sync_every=1"},
                   "local_sgd"}};
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    const auto neighbours = sources_in(options.as<Own>().graph, 0, shape.world, 0).size();
    return 4.0 * static_cast<double>(shape.parameters) * static_cast<double>(neighbours);
  };
  return r;
}

}  // namespace ringside::peer
