#include "peer/comm/local.h"

#include <deque>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(Device& device, const std::string& name)
      : Communicator(0, 1), device_(device), name_(name) {}

  WorkPtr all_reduce(const Tensor& array) override { return copied(array, array); }
  WorkPtr reduce_scatter(const Tensor& array, const Tensor& part) override {
    return copied(array, part);
  }
  WorkPtr all_gather(const Tensor& part, const Tensor& array) override {
    return copied(part, array);
  }
  WorkPtr broadcast(const Tensor& array, int root) override {
    check_rank("broadcast", root);
    return copied(array, array);
  }
  WorkPtr all_to_all(const Tensor& in, const Tensor& out) override { return copied(in, out); }

  WorkPtr send(const Tensor& array, int to) override {
    check_rank("send", to);
    return post(sent_, array);
  }
  WorkPtr recv(const Tensor& array, int from) override {
    check_rank("recv", from);
    return post(received_, array);
  }

  void barrier() override {}
  std::unique_ptr<Communicator> split(int colour, int key) override {
    return make_local_communicator(device_, fmt::format("{}/{}.{}", name_, colour, key));
  }
  Traffic traffic() const override { return {}; }

 private:
  struct State {
    Tensor tensor;
    Work::Span span;
    bool done = false;
  };

  class LocalWork : public Work {
   public:
    LocalWork(std::string group, std::shared_ptr<State> state)
        : group_(std::move(group)), state_(std::move(state)) {}
    void wait() override {
      if (!state_->done)
        throw Error("{}: a message to oneself that has no other end would wait for ever", group_);
    }
    Span span() const override { return state_->span; }

   private:
    std::string group_;
    std::shared_ptr<State> state_;
  };

  void check_rank(const char* what, int rank) const {
    if (rank != 0) throw Error("{}: {}: no rank {} among 1", name_, what, rank);
  }

  WorkPtr copied(const Tensor& in, const Tensor& out) {
    auto state = std::make_shared<State>();
    state->span.begin = device_.mark();
    copy(in, out);
    state->span.end = device_.mark();
    state->done = true;
    return std::make_unique<LocalWork>(name_, std::move(state));
  }

  void copy(const Tensor& in, const Tensor& out) {
    if (in.bytes() != out.bytes())
      throw Error("{}: {} bytes cannot be copied to {}", name_, in.bytes(), out.bytes());
    const bool same = in.buffer() == out.buffer() && in.byte_offset() == out.byte_offset();
    if (in.bytes() > 0 && !same) device_.kernels().copy({.in = in, .out = out});
  }

  WorkPtr post(std::deque<std::shared_ptr<State>>& queue, const Tensor& array) {
    auto state = std::make_shared<State>();
    state->tensor = array;
    state->span.begin = device_.mark();
    queue.push_back(state);
    if (!sent_.empty() && !received_.empty()) {
      copy(sent_.front()->tensor, received_.front()->tensor);
      for (auto* end : {&sent_, &received_}) {
        end->front()->span.end = device_.mark();
        end->front()->done = true;
        end->front()->tensor = {};
        end->pop_front();
      }
    }
    return std::make_unique<LocalWork>(name_, std::move(state));
  }

  Device& device_;
  std::string name_;
  std::deque<std::shared_ptr<State>> sent_, received_;
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator(Device& device, const std::string& name) {
  return std::make_unique<LocalCommunicator>(device, name);
}

}  // namespace ringside::peer
