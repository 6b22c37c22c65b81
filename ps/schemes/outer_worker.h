// Workers that take local steps and push differences, each at its own pace, for outer optimizers on
// servers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/fields.h"
#include "core/optim/optimizer.h"
#include "ps/schemes/centred_replay.h"
#include "ps/schemes/local_servers.h"

namespace ringside::ps {

/// The pace of workers, and the outer optimizer of their differences.
struct OuterOptions {
  std::int64_t sync_every = 500;
  bool by_speed = false;  // DyLU
  bool equal_steps = false;
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
};
/// The fields of a scheme's options, and these.
Fields with_outer(OuterOptions& options, Fields fields);
/// The most local steps of a push: `sync_every`, or those of a shorter run.
std::int64_t period_of(const OuterOptions& options, const TrainConfig& train);
/// Throws Error for values that are not allowed.
void check_outer(const OuterOptions& options, const RunPlan& plan);

/// The weight of a push of `steps` local steps by `worker`, for servers that merge.
using PushWeight = std::function<double(int worker, std::int64_t steps)>;

/// A worker: it takes `sync_every` steps, or as many as its speed says, pushes the difference from
/// the values that it read last, and goes on from the reply, for which it waits. It takes the steps
/// that server 0 grants, or train.steps if all do equally many. Null `weight`: servers do not
/// merge.
std::unique_ptr<SyncScheme> make_outer_worker(const RankContext& context,
                                              const OuterOptions& options,
                                              const LocalServers& servers, PushWeight weight);

/// The configuration of a server of such workers, without a policy and an optimizer.
ServerConfig outer_server_config(const RankContext& context, std::uint64_t token,
                                 const OuterOptions& options);
/// Runs a server until all workers are done.
RankRecord serve_outer(const RankContext& context, const LocalServers& servers, Model& model,
                       const std::function<ServerConfig(std::uint64_t token)>& config);

/// The base of their definitions: a kind says what the centre becomes by pushes.
class OuterReplay : public CentredReplay {
 public:
  OuterReplay(const RankContext& context, const OuterOptions& options)
      : CentredReplay(context, period_of(options, context.plan.train), options.by_speed) {}

  void attach(Model& model) override;

 protected:
  void offer(int worker) override;
  void reply(std::size_t range, int worker) override;
  /// The range's part of the difference that the worker pushed last.
  Tensor difference(std::size_t range, int worker) const {
    return of_range(range, of(worker).given);
  }

 private:
  struct Values {
    Tensor begun, given;  // the values that the worker read last, and the difference that it gives
  };
  const Values& of(int worker) const { return values_of_[static_cast<std::size_t>(worker)]; }

  std::vector<Values> values_of_;  // by worker
};

}  // namespace ringside::ps
