// PairServer: the replica of a passive worker, which others average with theirs.
#pragma once

#include <span>
#include <vector>

#include "core/models/model.h"
#include "core/plan/history.h"
#include "ps/protocol/finish_requests.h"
#include "ps/protocol/server.h"
#include "ps/protocol/server_config.h"

namespace ringside::ps {

/// The server of AD-PSGD. Its requests, all of the whole model in fp32:
/// - push_pull of its owner: an update; it is added to the replica -> the replica
/// - push_pull of another worker: that worker's replica; this one becomes the mean of both -> the
///   mean
/// - pull -> the replica
/// - finish: as of ParameterServer.
/// Each message is handled at once, so an averaging is atomic. The history has the push_pulls in
/// their order.
class PairServer : public Server {
 public:
  /// Holds the initial values, rounded to the dtype of the configuration. `owner` is the worker in
  /// this process. The device outlives the server.
  PairServer(const Model& model, Device& device, const ServerConfig& config, int owner);

  /// The number of the owner's updates.
  std::int64_t steps() const override { return steps_; }
  std::vector<int> patient() const override { return finishers_.waiting(seats()); }
  void report(RankRecord& record) override;
  std::int64_t parameter_count() const override { return replica_.count(); }
  void visit_state(const StateVisitor& visit) override;
  void restored(std::int64_t steps, std::int64_t skipped) override;
  nlohmann::ordered_json course() const override;
  void restore_course(const nlohmann::json& course) override;

 protected:
  Replies answer(int worker, Message message) override;
  void check_request(const Header& header, std::span<const FrameShape> frames) const override;
  /// The replica becomes its mean with another worker's.
  virtual void average(const Tensor& other);
  const Tensor& replica() const { return replica_; }

 private:
  Message with_replica(const Header& request);

  int owner_;
  Tensor replica_;
  std::int64_t steps_ = 0;
  ChunkHistory history_;
  FinishRequests finishers_;
};

}  // namespace ringside::ps
