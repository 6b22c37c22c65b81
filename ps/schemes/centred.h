// Workers that train replicas of their own beside values on servers, the centre of all replicas.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/scheme/local_replicas.h"
#include "ps/protocol/client.h"
#include "ps/protocol/partition.h"
#include "ps/protocol/transport.h"

namespace ringside::ps {

/// The common part of workers and definitions. The centre is fp32, and what the run evaluates and
/// ends with; batch norms are evaluated with the running statistics of the worker's own replica.
class Centred : public LocalReplicas {
 protected:
  using LocalReplicas::LocalReplicas;

  /// Binds the unit to its part of a whole model's parameters, and visits such parameters.
  void bind(std::size_t unit, const Tensor& parameters);
  void visit(const Tensor& parameters, const ParameterVisitor& visitor);
  const Kernels& kernels() const { return context().device.kernels(); }
  /// A whole model in the dtype of parameters.
  Tensor parameters_like_replicas(MemoryKind kind) const;
  /// The initial values of a whole model in fp32, as servers have them.
  Tensor initial_centre(MemoryKind kind) const;
  /// The values of a replica, from element `begin` on, become these.
  void set_values(int replica, std::int64_t begin, const Tensor& values) const;
  /// out = scale * (from - values), all fp32: what a worker pushes that began with `from`.
  void make_difference(const Tensor& from, const Tensor& values, float scale,
                       const Tensor& out) const;

 private:
  Tensor of_unit(std::size_t unit, const Tensor& parameters) const;
};

/// A worker, with one replica and a client of all servers. Each unit's next forward waits for the
/// replies about the unit alone. A worker that evaluates, and one that shows the centre at the end,
/// need additional memory for the centre: as much as for the parameters, in their dtype.
class CentredWorker : public Centred {
 public:
  void attach(Model& model) override;
  void before_forward(std::size_t unit, const Pass& pass) override;
  void after_forward(std::size_t, const Pass&) override { client_->progress(); }
  void after_backward(std::size_t unit, const Pass& pass) override;
  void drain() override { client_->drain(); }
  bool says_when_to_save() const override { return true; }
  void keep_in_touch() override { client_->progress(); }
  /// Waits until no worker pushes any more. Worker 0 shows the centre.
  void visit_parameters(const ParameterVisitor& visitor) override;
  Traffic traffic() const override { return client_ ? client_->traffic() : Traffic{}; }

 protected:
  CentredWorker(const RankContext& context, TransportOptions options);

  /// The chunks of the model, with the server of each.
  virtual std::vector<Chunk> make_chunks(const Model& model) const = 0;
  /// Reads the centre that is evaluated after the pass's step; the default reads the newest.
  virtual void read_for_evaluation(const Pass&) { read_centre(Kind::peek, 0); }
  /// Does the exchange that is due after a step, if one is.
  virtual void exchange(const StepInfo& info) = 0;

  using Take = std::function<void(const Chunk& chunk, const Tensor& reply)>;
  /// Sends a request about a chunk, with `frame` unless it is empty, and calls `take` with the
  /// frame of the reply. Does not block.
  void ask(const Chunk& chunk, Message request, const Tensor& frame, Take take);
  static Message about(Kind kind, const Chunk& chunk, std::int64_t step);
  /// Reads the centre, once a worker that has done `steps` steps may. Blocks.
  void read_centre(Kind kind, std::int64_t steps);
  void show_centre(const ParameterVisitor& visitor) { visit(centre_, visitor); }
  /// What was read for an evaluation before is old.
  void forget_centre() { centre_is_new_ = false; }
  Client& client() const { return *client_; }
  /// Of a process that has taken a worker's seat: the number of steps before its first one; none if
  /// it came when the run was over.
  std::optional<std::int64_t> begun() const { return begun_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  void synchronise(const StepInfo& info) final;
  void wait_for(std::size_t unit);
  void join();

  TransportOptions options_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Client> client_;
  std::vector<Chunk> chunks_;
  std::vector<int> missing_;    // how many replies have not come, by unit
  Tensor centre_;               // as it was read last; empty before
  bool centre_is_new_ = false;  // it was read after the latest step
  bool finished_ = false;
  std::optional<std::int64_t> begun_ = 0;
};

/// A worker that pushes the difference from the values that it read last to its own, and goes on
/// from the values of the reply. It holds the values read last (4 bytes a parameter) and the
/// difference on its way (as many).
class DifferenceWorker : public CentredWorker {
 public:
  void attach(Model& model) override;
  /// Also the values that were read last.
  void visit_state(const StateVisitor& visit) override;

 protected:
  using CentredWorker::CentredWorker;
  /// Pushes `scale` times the difference, with this weight for servers that merge. The kind is
  /// push_pull, whose reply has the values to go on from, or push. Does not wait for replies.
  void push(Kind kind, std::int64_t step, float scale, double weight = 0);
  /// Asks for the values after `steps` steps, to go on from.
  void pull(std::int64_t steps);

 private:
  void go_on_from(const Chunk& chunk, const Tensor& values);

  Tensor begun_;  // the values that were read last
  Tensor given_;  // the difference that is on its way
};

}  // namespace ringside::ps
