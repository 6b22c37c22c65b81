// The common part of a worker in all schemes with servers.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/scheme/replica.h"
#include "core/scheme/scheme.h"
#include "ps/protocol/partition.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/replica_link.h"

namespace ringside::ps {

/// A worker with a whole replica, a client of all servers, and the link between the replica and the
/// servers. Between the computations of units the worker copies arrived values into the replica,
/// without blocking. With train.reduce "every" the gradients of each micro-batch go to the servers,
/// and the servers add them up.
class ReplicaScheme : public SyncScheme {
 public:
  void attach(Model& model) override {
    replica_.emplace(model, context());
    model_ = &model;
    client_ = connect(context(), *transport_, transport_options(model), group());
    link_.emplace(model, *replica_, context(), *client_, chunks(model), compression());
  }

  void after_forward(std::size_t, const Pass&) override { client_->progress(); }
  void before_backward(std::size_t unit, const Pass& pass) override {
    client_->progress();
    if (every_ && pass.micro_batch > 0) {
      free_gradients(unit);
      if (const auto lender = model_->lender_of(unit)) free_gradients(*lender);
    }
    replica_->before_backward(unit, every_ ? Pass{} : pass);
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    replica_->after_backward(unit, every_ ? Pass{} : pass);
    if (pass.last())
      push(unit, pass.step);
    else if (every_)
      push_part(unit, pass.step, pass.micro_batch);
  }
  bool step(const StepInfo& info) override {
    steps_ = info.step + 1;
    return link_->settle(info);
  }
  /// Sums the values in portions that fit into a frame.
  void sum(std::span<double> values) override {
    constexpr std::size_t most = max_chunk_bytes / sizeof(double);
    Device& device = context().device;
    for (std::size_t begin = 0; begin < values.size(); begin += most) {
      const auto some = values.subspan(begin, std::min(most, values.size() - begin));
      const Tensor own = device.tensor({static_cast<std::int64_t>(some.size())},
                                       MemoryKind::communication, DType::f64);
      device.write(own, std::as_bytes(some));
      device.read(client_->sum(own), std::as_writable_bytes(some));
    }
  }

  /// Waits for all replies. The last replies bring the values of the latest update, so the servers
  /// have then handled all messages of this worker.
  void drain() override { client_->drain(); }

  void visit_parameters(const ParameterVisitor& visit) override {
    drain();
    link_->visit(visit);
  }

  /// The servers keep all state of the model.
  void visit_state(const StateVisitor& visit) override { link_->visit_state(own_values(), visit); }
  /// The servers have restored it before they answer: reads their values.
  void restored(std::int64_t) override {
    if (own_values().shown) return;
    link_->peek();
    client_->drain();
  }
  void keep_in_touch() override { client_->progress(); }

  Traffic traffic() const override { return client_ ? client_->traffic() : Traffic{}; }

 protected:
  explicit ReplicaScheme(const RankContext& context)
      : SyncScheme(context),
        transport_(context.links.transport<Transport>()),
        every_(pushes_a_step(context.plan.train) > 1) {}

  /// The options of the transport that this scheme uses.
  virtual TransportOptions transport_options(const Model& model) const = 0;

  /// The chunks of the model, with the server of each.
  virtual std::vector<Chunk> chunks(const Model& model) const {
    return partition(model, context().plan.servers);
  }

  /// How what this worker pushes and reads is compressed.
  virtual ChunkCompression compression() const { return {}; }

  /// Whether, and how, a checkpoint has this worker's values.
  virtual ReplicaLink::OwnValues own_values() const { return {}; }

  /// The number of workers that push as one.
  virtual int group() const { return 1; }

  /// Sends a unit's last gradient of a step.
  virtual void push(std::size_t unit, std::int64_t step) = 0;
  /// Sends a unit's gradient of an earlier micro-batch.
  virtual void push_part(std::size_t unit, std::int64_t step, std::int64_t micro_batch) {
    link_->push_part(unit, step, micro_batch);
  }
  /// Waits until the unit's gradient of an earlier micro-batch may be overwritten.
  virtual void free_gradients(std::size_t unit) { link_->wait_for(unit); }

  Replica& replica() { return *replica_; }
  Client& client() { return *client_; }
  ReplicaLink& link() { return *link_; }
  /// The number of updates for which this worker has sent its gradients.
  std::int64_t steps() const { return steps_; }

 private:
  std::unique_ptr<Transport> transport_;
  Model* model_ = nullptr;
  std::optional<Replica> replica_;
  std::unique_ptr<Client> client_;
  std::optional<ReplicaLink> link_;
  bool every_;  // a step has several micro-batches, and each is pushed
  std::int64_t steps_ = 0;
};

}  // namespace ringside::ps
