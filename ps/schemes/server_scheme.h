// The part of a scheme's info that all schemes with servers share.
#pragma once

#include "core/base/error.h"
#include "core/plan/device_traits.h"
#include "core/scheme/plain_scheme.h"
#include "ps/schemes/server_options.h"

namespace ringside::ps {

/// The options of a scheme's servers: its own, or its member `servers`.
template <class Own>
const auto& servers_in(const Own& options) {
  if constexpr (requires { options.servers.transport; })
    return options.servers;
  else
    return options;
}

/// The info of a scheme with servers, whose options are `Own`.
template <class Own, class Make, class Serve, class Minimum>
SchemeInfo server_scheme(std::string_view name, std::string_view summary, Make make, Serve serve,
                         Minimum minimum) {
  auto r = plain_scheme(name, summary, Own{});
  r.topology = SchemeTopology::servers;
  r.check = [name](const Options& options, const RunPlan& plan) {
    const Own& o = options.as<Own>();
    check(o, plan);
    if (servers_in(o).transport == TransportKind::shm &&
        !device_traits(plan.device.kind).shares_memory)
      throw Error(
          "scheme.{}.transport = \"shm\": ranks on device {} cannot map each other's memory; "
          "choose auto, ipc or tcp",
          name, plan.device.kind);
  };
  r.servers = [](const Options& options, int world) {
    const auto& o = servers_in(options.as<Own>());
    const ServerCounts counts = count_servers(o, world);
    return Servers{static_cast<int>(counts.all), static_cast<int>(counts.colocated), counts.group,
                   o.server_device == ServerDevice::same ? "" : "cpu"};
  };
  r.make = with_own<Own>(make);
  r.serve = [serve](const RankContext& context, const Options& options, Model& model,
                    const Loader& loader) {
    return serve(context, options.as<Own>(), model, loader);
  };
  r.minimum_bytes = [minimum](const Options& options, const StepShape& shape) {
    return minimum(shape, options.as<Own>());
  };
  return r;
}

}  // namespace ringside::ps
