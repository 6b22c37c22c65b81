#include "experiments/runner/registry/registry.h"

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/scheme/independent.h"
#include "core/scheme/local_replicas.h"
#include "core/scheme/single.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/local_sgd.h"
#include "ps/schemes/dp.h"
#include "ps/schemes/ps.h"

namespace ringside::runner {

SchemeInfo plain_row(std::string_view name, std::string_view summary, Options defaults) {
  SchemeInfo row;
  row.name = name;
  row.summary = summary;
  row.defaults = std::move(defaults);
  row.check = [](const Options&, const RunPlan&) {};
  row.order = [](const Options&, const RunPlan&) { return SumOrder::of_single; };
  row.promise = [](const Options&) { return Promise::same_run; };
  row.servers = [](const Options&, int) { return Servers{}; };
  row.expendable = [](const Options&, int) { return 0; };
  return row;
}

namespace {

SchemeInfo single_row() {
  auto r = plain_row("single", "one rank, no communication: the reference", SingleOptions{});
  r.max_world = 1;
  r.offloads = Offload::optimizer;
  r.converts_gradients = true;
  r.make = [](const RankContext& context, const Options& options) {
    return make_single(context, options.as<SingleOptions>());
  };
  r.minimum_bytes = [](const Options&, const StepShape&) { return 0.0; };
  r.divides = [](const Options&, int) { return StateDivision{}; };
  return r;
}

SchemeInfo ddp_row() {
  using Own = peer::DdpOptions;
  auto r = plain_row("ddp", "peers all-reduce gradient buckets during backward", Own{});
  r.offloads = Offload::optimizer;
  r.converts_gradients = true;
  r.check = [](const Options& options, const RunPlan& plan) {
    peer::check(options.as<Own>(), plan);
  };
  r.make = [](const RankContext& context, const Options& options) {
    return peer::make_ddp(context, options.as<Own>());
  };
  r.order = [](const Options& options, const RunPlan& plan) {
    return peer::ddp_order(options.as<Own>(), plan);
  };
  r.define = [](const RankContext& context, const Options& options) {
    return peer::define_ddp(context, options.as<Own>());
  };
  r.minimum_bytes = [](const Options&, const StepShape& shape) {
    return peer::ddp_minimum_bytes(shape);
  };
  r.divides = [](const Options&, int) { return StateDivision{}; };
  return r;
}

/// A row for a scheme of peers, whose workers are all in one communicator.
template <class Own, class Make, class Minimum>
SchemeInfo peer_row(std::string_view name, std::string_view summary, Make make, Minimum minimum) {
  auto r = plain_row(name, summary, Own{});
  r.check = [](const Options& options, const RunPlan&) { peer::check(options.as<Own>()); };
  r.make = [make](const RankContext& context, const Options& options) {
    return make(context, options.as<Own>());
  };
  r.minimum_bytes = [minimum](const Options&, const StepShape& shape) { return minimum(shape); };
  return r;
}

SchemeInfo fsdp_row() {
  using Own = peer::FsdpOptions;
  auto r = plain_row("fsdp", "peers shard parameters, gradients, optimizer state", Own{});
  r.offloads = Offload::parameters;
  r.reduces_each_micro_batch = true;
  r.converts_gradients = true;
  r.check = [](const Options& options, const RunPlan& plan) {
    peer::check(options.as<Own>(), plan);
  };
  r.make = [](const RankContext& context, const Options& options) {
    return peer::make_fsdp(context, options.as<Own>());
  };
  r.order = [](const Options& options, const RunPlan& plan) {
    return peer::fsdp_order(options.as<Own>(), plan);
  };
  r.define = [](const RankContext& context, const Options& options) {
    return peer::define_fsdp(context, options.as<Own>());
  };
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return peer::fsdp_minimum_bytes(shape, options.as<Own>());
  };
  r.divides = [](const Options& options, int world) {
    const Own& own = options.as<Own>();
    const peer::Degree degree = peer::degree_of(own.shard, own.shard_group, world);
    return StateDivision{.parameters = degree.parameters ? degree.group : 1,
                         .gradients = degree.gradients ? degree.group : 1,
                         .optimizer = degree.group};
  };
  return r;
}

/// A row for `fsdp` with one degree of sharding, by its name in the ZeRO paper.
SchemeInfo zero_row(std::string_view name, std::string_view summary, peer::Shard shard) {
  using Own = peer::FsdpOptions;
  auto r = fsdp_row();
  r.name = name;
  r.summary = summary;
  r.defaults = Own{.shard = shard};
  r.reduces_each_micro_batch = shard != peer::Shard::shard_optimizer;
  r.check = [name, shard](const Options& options, const RunPlan& plan) {
    const Own& own = options.as<Own>();
    if (own.shard != shard)
      throw Error("scheme.{}.shard = '{}': {} stands for '{}'; leave it out, or use scheme fsdp",
                  name, name_of(own.shard), name, name_of(shard));
    peer::check(own, plan);
  };
  return r;
}

SchemeInfo independent_row() {
  auto r = plain_row("independent", "no synchronisation: every worker trains a model of its own",
                     IndependentOptions{});
  r.promise = [](const Options&) { return Promise::own_algorithm; };
  r.check = [](const Options&, const RunPlan& plan) { check_side_by_side(plan); };
  r.make = [](const RankContext& context, const Options&) { return make_independent(context); };
  r.define = [](const RankContext& context, const Options&) { return define_independent(context); };
  r.minimum_bytes = [](const Options&, const StepShape&) { return 0.0; };
  return r;
}

SchemeInfo local_sgd_row() {
  using Own = peer::LocalSgdOptions;
  auto r = plain_row("averaging", "local SGD: peers average their replicas every few steps", Own{});
  r.promise = [](const Options&) { return Promise::own_algorithm; };
  r.check = [](const Options& options, const RunPlan& plan) {
    peer::check(options.as<Own>(), plan);
  };
  r.make = [](const RankContext& context, const Options& options) {
    return peer::make_local_sgd(context, options.as<Own>());
  };
  r.define = [](const RankContext& context, const Options& options) {
    return peer::define_local_sgd(context, options.as<Own>());
  };
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return peer::local_sgd_minimum_bytes(shape, options.as<Own>());
  };
  return r;
}

/// A row for a scheme with servers.
template <class Own, class Make, class Serve, class Minimum>
SchemeInfo server_row(std::string_view name, std::string_view summary, Make make, Serve serve,
                      Minimum minimum) {
  auto r = plain_row(name, summary, Own{});
  r.check = [name](const Options& options, const RunPlan& plan) {
    const Own& o = options.as<Own>();
    ps::check(o, plan);
    if (o.transport == ps::TransportKind::shm && !find_device(plan.device.kind).shares_memory)
      throw Error(
          "scheme.{}.transport = \"shm\": ranks on device {} cannot map each other's memory; "
          "choose "
          "auto, ipc or tcp",
          name, plan.device.kind);
  };
  r.servers = [](const Options& options, int world) {
    const Own& o = options.as<Own>();
    const ps::ServerCounts counts = ps::count_servers(o, world);
    return Servers{static_cast<int>(counts.all), static_cast<int>(counts.colocated), counts.group,
                   o.server_device == ps::ServerDevice::same ? "" : "cpu"};
  };
  r.make = [make](const RankContext& context, const Options& options) {
    return make(context, options.as<Own>());
  };
  r.serve = [serve](const RankContext& context, const Options& options, Model& model,
                    const Loader& loader) {
    return serve(context, options.as<Own>(), model, loader);
  };
  r.minimum_bytes = [minimum](const Options& options, const StepShape& shape) {
    return minimum(shape, options.as<Own>());
  };
  return r;
}

SchemeInfo ps_row() {
  using Own = ps::PsOptions;
  auto r = server_row<Own>("ps", "parameter servers: each holds and updates a part of the model",
                           ps::make_ps, ps::serve_ps, ps::ps_minimum_bytes);
  r.promise = [](const Options& options) { return ps::promise_of(options.as<Own>()); };
  r.expendable = [](const Options& options, int world) {
    return ps::expendable_workers(options.as<Own>(), world);
  };
  r.order = [](const Options& options, const RunPlan& plan) {
    return ps::ps_order(options.as<Own>(), plan);
  };
  r.define = [](const RankContext& context, const Options& options) {
    return ps::define_ps(context, options.as<Own>());
  };
  return r;
}

std::vector<SchemeInfo> with_torch_rows(std::vector<SchemeInfo> rows) {
  for (SchemeInfo& row : torch_rows()) rows.push_back(std::move(row));
  return rows;
}

template <class Row>
const Row& find(const std::vector<Row>& rows, std::string_view what, std::string_view name) {
  std::vector<std::string> known;
  for (const Row& row : rows) {
    if (row.name == name) return row;
    known.emplace_back(row.name);
  }
  throw Error("unknown {} '{}'; did you mean '{}'? There are: {}", what, name, nearest(name, known),
              fmt::join(known, ", "));
}

}  // namespace

const std::vector<SchemeInfo>& scheme_rows() {
  static const std::vector<SchemeInfo> rows = with_torch_rows({
      single_row(),
      server_row<ps::DpOptions>("dp", "classic DataParallel: one master scatters and gathers",
                                ps::make_dp, ps::serve_dp, ps::dp_minimum_bytes),
      ps_row(),
      ddp_row(),
      fsdp_row(),
      zero_row("zero1", "fsdp that shards optimizer state alone", peer::Shard::shard_optimizer),
      zero_row("zero2", "fsdp that shards optimizer state and gradients",
               peer::Shard::shard_grad_op),
      zero_row("zero3", "the same as fsdp with its default degree", peer::Shard::full_shard),
      local_sgd_row(),
      independent_row(),
  });
  return rows;
}

const SchemeInfo& find_scheme(std::string_view name) { return find(scheme_rows(), "scheme", name); }
const DatasetRow& find_dataset(std::string_view name) {
  return find(dataset_rows(), "data set", name);
}
const DeviceRow& find_device(std::string_view name) { return find(device_rows(), "device", name); }
const FrameworkRow& find_framework(std::string_view name) {
  return find(framework_rows(), "framework", name);
}
const MessageRow& find_messages(std::string_view name) {
  return find(message_rows(), "library of messages", name);
}

Options default_options(const std::string& scheme) { return find_scheme(scheme).defaults; }

}  // namespace ringside::runner
