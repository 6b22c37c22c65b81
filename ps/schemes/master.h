// Master: the server of classic data parallelism.
#pragma once

#include <vector>

#include "core/data/loader.h"
#include "core/plan/run_plan.h"
#include "ps/protocol/parameter_server.h"

namespace ringside::ps {

/// A server that also reads the data: it sends out the inputs, keeps their targets and computes the
/// loss of the logits that workers send back. The loss has the bits that the worker would have
/// computed.
class Master : public ParameterServer {
 public:
  /// The model, the loader and the plan outlive the master.
  Master(const Model& model, const std::vector<Chunk>& chunks, Device& device,
         const ServerConfig& config, const Loader& loader, const RunPlan& plan);

 protected:
  Replies answer(int worker, Message message) override;

 private:
  /// A micro-batch that has no loss yet.
  struct Open {
    std::int64_t step = 0, micro_batch = 0;
    Tensor targets;
  };

  Message inputs(const Header& header, Open& open);
  Message loss(const Message& message, Open& open);

  const Loader& loader_;
  std::vector<LossTerm> terms_;
  std::int64_t logits_per_sample_;
  const RunPlan& plan_;
  std::vector<Open> open_;  // by worker
};

}  // namespace ringside::ps
