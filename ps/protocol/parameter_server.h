// ParameterServer: keeps a part of the model's parameters and updates it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/models/model.h"
#include "core/observe/staleness.h"
#include "ps/protocol/chunk_state.h"
#include "ps/protocol/delay_compensation.h"
#include "ps/protocol/finish_requests.h"
#include "ps/protocol/optimizer_rounds.h"
#include "ps/protocol/parameter_shard.h"
#include "ps/protocol/partition.h"
#include "ps/protocol/server.h"
#include "ps/protocol/server_codes.h"
#include "ps/protocol/server_config.h"
#include "ps/protocol/step_budget.h"

namespace ringside::ps {

/// A server that updates chunks of parameters. It adds up the gradients of an update in the order
/// of the workers that push the chunk; a gradient that arrives early waits. If a step has several
/// pushes, it adds up their sums. Then the optimizer updates the chunk, and the workers that may
/// read get its values: views of them, or copies if the next update may come before the worker has
/// them. A policy decides which gradients make an update, and which workers may read
/// (ps/protocol/consistency.h). Where the optimizer needs sums over the whole model first, all
/// chunks are updated together once the workers have them (ps/protocol/optimizer_rounds.h). What
/// the server holds of its chunks is its shard (ps/protocol/parameter_shard.h).
///
/// An update with fewer gradients than planned, because workers are gone, is the mean of those that
/// it has. A merge (Policy::grace_s) is the mean of what has come, by the weights of the pushes.
/// With `delay_compensation` a gradient is first corrected for the updates since its worker read
/// (ps/protocol/delay_compensation.h). Then `staleness_lr` divides the update's learning rate.
///
/// Gradients and values may travel as codes (ps/protocol/server_codes.h): the server adds up what
/// the pushes of workers stand for, and gives each worker the code of the difference from what it
/// has. A worker that peeks gets the values themselves.
///
/// With easgd the server has no optimizer: its parameters are the centre, which values of workers
/// move (ps/protocol/elastic_centre.h). Staleness is the number of updates of the centre since the
/// worker's last exchange.
class ParameterServer : public Server {
 public:
  /// Writes the initial values of those chunks that belong to this server. The device outlives the
  /// server.
  ParameterServer(const Model& model, const std::vector<Chunk>& chunks, Device& device,
                  const ServerConfig& config);

  /// The number of steps for which every worker has pushed every chunk of this server.
  std::int64_t steps() const override;
  Replies lose(int worker) override;
  std::vector<int> patient() const override;
  std::optional<double> due() const override;
  Replies wake() override;
  void report(RankRecord& record) override;
  // parameter_server_state.cc
  std::int64_t parameter_count() const override {
    return shard_.values() ? shard_.values().count() : 0;
  }
  bool is_after(std::int64_t steps) const override;
  void visit_state(const StateVisitor& visit) override;
  void restored(std::int64_t steps, std::int64_t skipped) override;
  nlohmann::ordered_json course() const override;
  void restore_course(const nlohmann::json& course) override;
  /// Seconds spent in the optimizer after the warm-up. Blocks until the updates have run.
  double optimizer_seconds() { return shard_.seconds(); }

 protected:
  Replies answer(int worker, Message message) override;
  std::int64_t begun() const override;
  Replies rest(int worker) override;
  void go_on() override;
  Joining expect(int worker) override;
  Replies begin_at(int worker, std::int64_t first) override;
  void check_request(const Header& header, std::span<const FrameShape> frames) const override;
  const ServerConfig& config() const { return config_; }

 private:
  /// The values of a chunk for a reply, and the version to which they belong.
  struct Values {
    Tensor tensor;
    std::int64_t version = -1;
  };

  /// Throws Error if the header is about no chunk of this server, or about one of other workers.
  std::size_t index_of(const Header& header) const;
  Replies push(int worker, const Header& header, std::vector<Tensor> frames);
  /// Adds the gradients that are next in order, updates, and replies to the workers that may read.
  /// Then does the same with the other chunks, if this one decided a merge.
  Replies advance(std::size_t index);
  /// The same for every chunk.
  Replies advance_all();
  Tensor copy_of(const Tensor& values) const;
  /// Throws Error if the optimizer needs no sums.
  OptimizerRounds& rounds();
  Replies settle(int worker, const Header& header, const std::vector<Tensor>& frames);
  Replies end_rounds(bool finite);
  bool is_bulk_synchronous() const { return policy_->values_rest() && !policy_->may_skip(); }
  // parameter_server_readers.cc
  Replies pull(int worker, const Header& header);
  Replies answer_readers(std::size_t index);
  Tensor values_of(std::size_t index);
  Tensor values_for(std::size_t index, const ChunkReader& reader);
  // parameter_server_course.cc
  Replies ticket(int worker, const Header& header);
  Replies merge(const Header& header);
  Replies finish(int worker, const Header& header);
  /// Of a worker that has pushed this number to one chunk, no other awaits a smaller one. Else a
  /// worker whose window is full of requests that wait for a second worker could keep from the
  /// server what this one waits for. Returns the replies that this causes.
  Replies skip(int worker, std::int64_t number);
  /// Stops waiting for the worker in all updates. Returns the replies that this causes.
  Replies leave(int worker);

  ServerConfig config_;
  std::shared_ptr<const Policy> policy_;
  ServerCodes codes_;
  Merges merges_;
  bool tells_merges_ = false;  // this server decides them, and there are others
  std::vector<ChunkState> chunks_;
  std::map<std::int64_t, std::size_t> chunk_at_;  // index of a chunk, by its first element
  ParameterShard shard_;
  std::vector<Values> copies_;  // by chunk: the latest values that a worker was given as a copy
  std::optional<DelayCompensation> compensation_;
  std::optional<OptimizerRounds> rounds_;
  Staleness staleness_;
  StepBudget budget_;
  FinishRequests finishers_;
};

}  // namespace ringside::ps
