#include "ps/schemes/ps.h"

#include <algorithm>
#include <numeric>

#include "core/plan/device_traits.h"
#include "ps/protocol/parameter_server.h"
#include "ps/protocol/server_loop.h"
#include "ps/schemes/easgd.h"
#include "ps/schemes/ps_compression.h"
#include "ps/schemes/ps_parts.h"
#include "ps/schemes/ps_worker.h"
#include "ps/schemes/server_scheme.h"

namespace ringside::ps {

std::unique_ptr<SyncScheme> make_ps(const RankContext& context, const PsOptions& options) {
  if (sum_group_of(options, context.plan.world) > 1) return make_grouped_ps(context, options);
  if (is_synchronous(options)) return std::make_unique<PsWorker>(context, options);
  if (options.consistency == Consistency::easgd) return make_easgd(context, options);
  return make_free_ps(context, options);
}

RankRecord serve_ps(const RankContext& context, const PsOptions& options, Model& model,
                    const Loader&) {
  const auto transport = context.links.transport<Transport>();
  const Connection connection = transport->listen(context, transport_options(context, options));
  ParameterServer server(model, chunks_of(model, context.plan.world, options), context.device,
                         server_config(context, connection.token, options));
  return serve(context, *connection.channel, server, model.parameter_count());
}

double ps_minimum_bytes(const StepShape& shape, const PsOptions& options) {
  if (compresses(options)) return compressed_ps_bytes(shape, options);
  const bool elastic = options.consistency == Consistency::easgd;
  const double parameters = elastic ? 4 * static_cast<double>(shape.parameters) /
                                          static_cast<double>(options.communication_period)
                                    : static_cast<double>(shape.parameter_bytes);
  const double n = shape.world, s = shape.servers, g = sum_group_of(options, shape.world);
  const auto r = static_cast<double>(shape.reductions);
  const double pushed = parameters / g;
  const double within = (g - 1) * pushed * (r + 1);
  if (options.placement == Placement::dedicated)
    return std::max(within + r * pushed, n * pushed / s);
  // The bytes that a rank sends whose server keeps `kept` bytes and whose worker pushes as many of
  // them as possible.
  const auto worker_and_server = [&](double kept) {
    const double own = std::min(kept, pushed);
    return within + r * (pushed - own) + n / g * kept - own;
  };
  if (options.placement == Placement::mixed) {
    const auto shares = shares_of_servers(options.placement, options.servers, shape.world,
                                          sum_group_of(options, shape.world));
    const auto all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    const double part = parameters / static_cast<double>(all);
    const double dedicated = options.servers > 0 ? part * static_cast<double>(shares.back()) : 0;
    return std::max(n / g * dedicated,
                    worker_and_server(part * static_cast<double>(shares.front())));
  }
  const double least = worker_and_server(parameters / s);
  return shape.servers < shape.world ? std::max(within + r * pushed, least) : least;
}

SumOrder ps_order(const PsOptions& options, const RunPlan& plan) {
  const int group = sum_group_of(options, plan.world);
  if (group == 1 || device_traits(plan.device.kind).sums_in_library) return SumOrder::of_single;
  return group < plan.world || pushes_a_step(plan.train) > 1 ? SumOrder::own : SumOrder::of_single;
}

SchemeInfo ps_info() {
  using Own = PsOptions;
  auto r = server_scheme<Own>("ps", "parameter servers: each holds and updates a part of the model",
                              make_ps, serve_ps, ps_minimum_bytes);
  r.promise = [](const Options& options) { return promise_of(options.as<Own>()); };
  r.resumes = [](const Options&) { return true; };
  r.expendable = with_own<Own>(expendable_workers);
  r.seats_are_taken_again = [](const Options& options) {
    return !is_synchronous(options.as<Own>());
  };
  r.order = with_own<Own>(ps_order);
  r.define = with_own<Own>(define_ps);
  const std::string all = "scheme.ps.ratio=1";
  r.identities = {{{"scheme.ps.compressor=topk", all}, "single"},
                  {{"scheme.ps.compressor=topk", "scheme.ps.pull_compressor=topk", all}, "single"}};
  const CompressionOptions int8 = {.compressor = "int8", .block = 100};
  r.tried = {
      {"topk", Own{.partition_mb = 0.01, .compression = {.compressor = "topk", .ratio = 0.25}}},
      {"int8_both", Own{.compression = int8, .pull_compressor = "int8"}},
      {"pulls_in_bf16", Own{.pull_compressor = "bf16"}},
      {"asp_onebit", Own{.consistency = Consistency::asp,
                         .partition_mb = 0.01,
                         .compression = {.compressor = "onebit"}}},
      {"asp_int8_both",
       Own{.consistency = Consistency::asp, .compression = int8, .pull_compressor = "int8"}},
      {"asp", Own{.consistency = Consistency::asp}},
      {"asp_compensated", Own{.consistency = Consistency::asp, .delay_compensation = 2}},
      {"ssp", Own{.consistency = Consistency::ssp, .staleness_bound = 1}},
      {"easgd", Own{.consistency = Consistency::easgd, .communication_period = 1}}};
  return r;
}

}  // namespace ringside::ps
