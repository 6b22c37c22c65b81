// Schemes and communicators that wrap another one: a test overrides what it wants to change.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/comm/window.h"
#include "core/scheme/scheme.h"

namespace ringside::testing {

/// Does what another scheme does.
class Wrapped : public SyncScheme {
 public:
  Wrapped(const RankContext& context, std::unique_ptr<SyncScheme> right)
      : SyncScheme(context), right_(std::move(right)) {}

  void attach(Model& model) override { right_->attach(model); }
  void before_forward(std::size_t u, const Pass& pass) override { right_->before_forward(u, pass); }
  void after_forward(std::size_t u, const Pass& pass) override { right_->after_forward(u, pass); }
  void before_backward(std::size_t u, const Pass& pass) override {
    right_->before_backward(u, pass);
  }
  void after_backward(std::size_t u, const Pass& pass) override { right_->after_backward(u, pass); }
  void after_input_gradient(std::size_t u, const Pass& pass) override {
    right_->after_input_gradient(u, pass);
  }
  void before_weight_gradient(std::size_t u, const Pass& pass) override {
    right_->before_weight_gradient(u, pass);
  }
  bool step(const StepInfo& info) override { return right_->step(info); }
  void amend(const std::function<void()>& put_right) override { right_->amend(put_right); }
  void drain() override { right_->drain(); }
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    return right_->next_assignment(done);
  }
  std::int64_t gradient_batch() const override { return right_->gradient_batch(); }
  int own_replicas() const override { return right_->own_replicas(); }
  void sum(std::span<double> values) override { right_->sum(values); }
  Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass& pass) override {
    return right_->fetch(slice, loader, pass);
  }
  Loss loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
            const Pass& pass) override {
    return right_->loss(logits, batch, terms, pass);
  }
  void visit_parameters(const ParameterVisitor& visit) override { right_->visit_parameters(visit); }
  std::vector<std::pair<std::int64_t, std::int64_t>> kept() const override {
    return right_->kept();
  }
  bool says_when_to_save() const override { return right_->says_when_to_save(); }
  void keep_in_touch() override { right_->keep_in_touch(); }
  void visit_state(const StateVisitor& visit) override { right_->visit_state(visit); }
  void restored(std::int64_t skipped) override { right_->restored(skipped); }
  Traffic traffic() const override { return right_->traffic(); }
  std::vector<SchemeFigure> figures() const override { return right_->figures(); }

 private:
  std::unique_ptr<SyncScheme> right_;
};

/// Does what another communicator does.
class WrappedCommunicator : public Communicator {
 public:
  explicit WrappedCommunicator(std::unique_ptr<Communicator> right)
      : Communicator(right->rank(), right->size()), right_(std::move(right)) {}

  WorkPtr all_reduce(const Tensor& array) override { return right_->all_reduce(array); }
  WorkPtr reduce_scatter(const Tensor& array, const Tensor& part) override {
    return right_->reduce_scatter(array, part);
  }
  WorkPtr all_gather(const Tensor& part, const Tensor& array) override {
    return right_->all_gather(part, array);
  }
  WorkPtr broadcast(const Tensor& array, int root) override {
    return right_->broadcast(array, root);
  }
  WorkPtr all_to_all(const Tensor& in, const Tensor& out) override {
    return right_->all_to_all(in, out);
  }
  WorkPtr send(const Tensor& array, int to) override { return right_->send(array, to); }
  WorkPtr recv(const Tensor& array, int from) override { return right_->recv(array, from); }
  void barrier() override { right_->barrier(); }
  std::unique_ptr<Communicator> split(int colour, int key) override {
    return right_->split(colour, key);
  }
  std::unique_ptr<Window> expose(const Tensor& tensor) override { return right_->expose(tensor); }
  Tensor share(std::int64_t count, MemoryKind kind, DType dtype) override {
    return right_->share(count, kind, dtype);
  }
  Traffic traffic() const override { return right_->traffic(); }

 private:
  std::unique_ptr<Communicator> right_;
};

}  // namespace ringside::testing
