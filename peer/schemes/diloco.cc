#include "peer/schemes/diloco.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/compress/compressor_info.h"
#include "core/scheme/check_compression.h"
#include "core/scheme/state.h"
#include "peer/schemes/compressed.h"
#include "peer/schemes/local_scheme.h"

namespace ringside::peer {
namespace {

/// Divides the model into at most `number` fragments of consecutive units, with about equally many
/// parameters; fewer if the model has fewer units.
std::vector<Fragment> fragments_of(const Model& model, std::int64_t number) {
  std::vector<Fragment> out;
  const std::int64_t all = model.parameter_count();
  std::int64_t begin = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t end = model.first_parameter(u + 1);
    const auto next = static_cast<std::int64_t>(out.size()) + 1;
    if (end * number < all * next && u + 1 < model.units.size()) continue;
    if (end > begin) out.push_back({begin, end - begin});
    begin = end;
  }
  return out;
}

/// The number of steps from one fragment's turn to the next one's.
std::int64_t gap(const DilocoOptions& options) {
  return options.sync_every / options.num_fragments;
}

class Diloco final : public LocalRule {
 public:
  Diloco(const RuleContext& context, const DilocoOptions& options)
      : LocalRule(context), options_(options) {}

  std::vector<Fragment> fragments() const override {
    return fragments_of(context().model, options_.num_fragments);
  }
  /// Fragment f of n takes its turn f / n of the way from one turn of fragment 0 to the next.
  bool gives(std::size_t fragment, std::int64_t done) const override {
    const std::int64_t offset = static_cast<std::int64_t>(fragment) * gap(options_);
    return done > 0 && (done % options_.sync_every == offset || done == context().steps);
  }
  std::int64_t delay() const override { return options_.fragment_sync_delay; }
  CompressionOptions compression() const override { return options_.compression; }
  bool measures(std::int64_t done) const override {
    return options_.distance.measures(done, context().steps);
  }

  void attach(const Tensor& values) override {
    Device& device = context().device;
    global_ = device.tensor(values.shape(), MemoryKind::optimizer);
    kernels().copy({.in = values, .out = global_});
    if (options_.outer_momentum == 0) return;
    momentum_ = device.tensor(values.shape(), MemoryKind::optimizer);
    kernels().fill({.out = momentum_});
  }

  void visit_state(const RuleStateVisitor& visit) override {
    visit({"outer_parameters", global_, true, state_parameters});
    if (momentum_) visit({"outer_momentum", momentum_, true});
  }

  void give(const Fragment& fragment, const Tensor& values, const Tensor& message) override {
    kernels().copy({.in = fragment.of(global_), .out = message});
    kernels().blend({.in = values, .out = message, .in_scale = -1, .out_scale = 1});
  }

  void take(const Fragment& fragment, const Received& received, const Tensor& values) override {
    const Tensor global = fragment.of(global_);
    kernels().sgd({.parameters = global,
                   .gradients = received.messages[0],
                   .velocity = momentum_ ? fragment.of(momentum_) : Tensor(),
                   .lr = static_cast<float>(options_.outer_lr),
                   .momentum = static_cast<float>(options_.outer_momentum),
                   .nesterov = options_.outer_momentum > 0,
                   .gradient_scale = share(),
                   .step = 2});  // the momentum has a value from the beginning
    const auto alpha = received.last ? 0 : static_cast<float>(options_.fragment_update_alpha);
    kernels().blend({.in = global, .out = values, .in_scale = 1 - alpha, .out_scale = alpha});
  }

 private:
  DilocoOptions options_;
  Tensor global_, momentum_;  // of the whole model
};

void check(const DilocoOptions& options, const RunPlan& plan) {
  check_compression(options.compression, plan);
  if (compresses(options.compression) &&
      !find_compressor(options.compression.compressor).estimates_sum)
    throw Error(
        "scheme.diloco.compressor = '{}' gives signs in place of a sum of differences; use "
        "'onebit'",
        options.compression.compressor);
  const auto& [sync_every, lr, momentum, fragments, delay, alpha, compression, distance] = options;
  if (sync_every % fragments != 0)
    throw Error(
        "scheme.diloco.num_fragments = {} does not divide scheme.diloco.sync_every = {}; choose a "
        "divisor",
        fragments, sync_every);
  if (delay >= gap(options))
    throw Error(
        "scheme.diloco.fragment_sync_delay = {} must be less than the {} steps from one fragment's "
        "turn to the next one's",
        delay, gap(options));
  for (const auto& [name, value] :
       {std::pair("outer_momentum", momentum), std::pair("fragment_update_alpha", alpha)})
    if (value >= 1) throw Error("scheme.diloco.{} = {} must be less than 1", name, value);
}

}  // namespace

Fields fields_of(DilocoOptions& options) {
  return with_distance(
      options.distance,
      with_compression(
          options.compression,
          {{"sync_every", &options.sync_every,
            "number of local steps from one exchange of a fragment to its next", Range::positive},
           {"outer_lr", &options.outer_lr, "learning rate of the outer optimizer", Range::positive},
           {"outer_momentum", &options.outer_momentum,
            "Nesterov's momentum of the outer optimizer; 0: none", Range::not_negative},
           {"num_fragments", &options.num_fragments,
            "fragments of the model, which are exchanged in turn, each of whole units (so there "
            "are at "
            "most "
            "as many as units); it must divide sync_every",
            Range::positive},
           {"fragment_sync_delay", &options.fragment_sync_delay,
            "steps that a worker trains on while a fragment is exchanged; less than sync_every "
            "divided "
            "by num_fragments",
            Range::not_negative},
           {"fragment_update_alpha", &options.fragment_update_alpha,
            "share of a worker's own values that it keeps after an exchange",
            Range::not_negative}}));
}

std::unique_ptr<LocalRule> make_diloco_rule(const RuleContext& context,
                                            const DilocoOptions& options) {
  return std::make_unique<Diloco>(context, options);
}

SchemeInfo diloco_info() {
  using Own = DilocoOptions;
  auto r =
      local_scheme<Diloco>("diloco", "local steps, and an outer optimizer with Nesterov's momentum",
                           "outer step", Own{});
  r.needs_whole_model = [](const Options& options, const RunPlan&) {
    const std::int64_t fragments = options.as<Own>().num_fragments;
    return fragments > 1 ? fmt::format("scheme.diloco.num_fragments = {}", fragments) : "";
  };
  r.tried = {
      {"every_two", Own{.sync_every = 2, .distance = {.distance = true}}},
      {"streaming", Own{.sync_every = 4,
                        .num_fragments = 2,
                        .fragment_sync_delay = 1,
                        .fragment_update_alpha = 0.5}},
      {"delayed", Own{.sync_every = 6,
                      .num_fragments = 2,
                      .fragment_sync_delay = 2,
                      .fragment_update_alpha = 0.5}},
      {"delayed_powersgd",
       Own{.sync_every = 6,
           .num_fragments = 2,
           .fragment_sync_delay = 2,
           .compression = {.compressor = "powersgd", .matrix_approximation_rank = 2}}},
      {"in_int8", Own{.sync_every = 2, .compression = {.compressor = "int8", .block = 100}}},
      {"streaming_in_int4", Own{.sync_every = 4,
                                .num_fragments = 2,
                                .fragment_sync_delay = 1,
                                .fragment_update_alpha = 0.5,
                                .compression = {.compressor = "int4", .block = 99}}},
      {"powersgd", Own{.sync_every = 4,
                       .num_fragments = 2,
                       .fragment_sync_delay = 1,
                       .compression = {.compressor = "powersgd", .matrix_approximation_rank = 2}}}};
  const std::string plain = "scheme.diloco.outer_lr=1", still = "scheme.diloco.outer_momentum=0";
  r.identities = {
      {{"scheme.diloco.sync_every=1", plain, still, "optimizer.kind=sgd"}, "single"},
      {{"scheme.diloco.sync_every=2", plain, still, "scheme.local_sgd.sync_every=2"}, "local_sgd"}};
  r.check = with_own<Own>(check);
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    const Own& own = options.as<Own>();
    const double exchange = compresses(own.compression)
                                ? compressed_bytes(own.compression, shape.tensors, shape.world) /
                                      static_cast<double>(own.sync_every)
                                : sum_bytes(shape.world, shape.parameters, own.sync_every);
    return exchange + distance_bytes(own.distance, shape);
  };
  return r;
}

}  // namespace ringside::peer
