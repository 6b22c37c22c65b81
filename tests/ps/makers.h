// Makers of the schemes with servers, for whole runs.
#pragma once

#include "core/base/error.h"
#include "ps/schemes/dp.h"
#include "ps/schemes/ps.h"
#include "tests/ps/run.h"

namespace ringside::testing {

inline Make maker(const ps::PsOptions& options) {
  return [options](const RankContext& context) { return ps::make_ps(context, options); };
}
inline Make maker(const ps::DpOptions& options) {
  return [options](const RankContext& context) { return ps::make_dp(context, options); };
}
inline Serve server_of(const ps::PsOptions& options) {
  return [options](const RankContext& context, Model& model, const Loader& loader) {
    return ps::serve_ps(context, options, model, loader);
  };
}
inline Serve server_of(const ps::DpOptions& options) {
  return [options](const RankContext& context, Model& model, const Loader& loader) {
    return ps::serve_dp(context, options, model, loader);
  };
}

/// Makes what `make` makes; but worker 1 connects and then fails.
inline Make with_a_failing_worker(const Make& make) {
  return [make](const RankContext& context) {
    auto scheme = make(context);
    if (context.rank != 1) return scheme;
    const auto device = make_cpu_device(1);
    Model model = make_mlp(context.plan.model, *device);
    scheme->attach(model);
    throw Error("no memory left");
  };
}
/// Expects that the errors of all other ranks name worker 1, also where they heard of it from a
/// worker that gave up because of it.
inline void expect_that_others_name_the_failing_worker(const std::vector<RankResult>& results) {
  EXPECT_EQ(results[1].error, "no memory left");
  for (std::size_t r = 0; r < results.size(); ++r)
    if (r != 1) {
      EXPECT_NE(results[r].error.find("worker 1 gave up"), std::string::npos)
          << r << ": " << results[r].error;
    }
}

/// Makes what `make` makes; but worker 1 fails before it connects.
inline Make without_worker_1(const Make& make) {
  return [make](const RankContext& context) {
    if (context.rank == 1) throw Error("absent");
    return make(context);
  };
}
inline RankRecord absent_server(const RankContext&, Model&, const Loader&) {
  throw Error("absent");
}

}  // namespace ringside::testing
