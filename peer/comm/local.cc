#include "peer/comm/local.h"

#include <deque>

#include "core/base/error.h"
#include "core/comm/window.h"
#include "peer/comm/checked_communicator.h"

namespace ringside::peer {
namespace {

class LocalCommunicator : public CheckedCommunicator {
 public:
  LocalCommunicator(Device& device, const std::string& name)
      : CheckedCommunicator({name, 0, 1}), device_(device) {}

  void barrier() override {}
  std::unique_ptr<Communicator> split(int colour, int key) override {
    return make_local_communicator(device_, fmt::format("{}/{}.{}", name(), colour, key));
  }
  std::unique_ptr<Window> expose(const Tensor& tensor) override {
    return std::make_unique<LocalWindow>(*this, tensor);
  }
  Traffic traffic() const override { return {}; }

 private:
  /// The rank reads and writes its own tensor.
  class LocalWindow : public Window {
   public:
    LocalWindow(LocalCommunicator& communicator, Tensor own)
        : communicator_(communicator), own_(std::move(own)) {}
    WorkPtr get(int owner, std::int64_t begin, const Tensor& out) override {
      return communicator_.begin({}, part(owner, begin, out), out);
    }
    WorkPtr put(const Tensor& in, int owner, std::int64_t begin) override {
      return communicator_.begin({}, in, part(owner, begin, in));
    }
    WorkPtr add(const Tensor& in, int owner, std::int64_t begin) override {
      const Tensor sum = part(owner, begin, in);
      communicator_.device_.kernels().add({.in = in, .out = sum});
      return communicator_.begin({}, sum, sum);
    }
    Traffic traffic() const override { return {}; }

   private:
    Tensor part(int owner, std::int64_t begin, const Tensor& like) const {
      communicator_.check_rank("a window", owner);
      return own_.range(begin, like.count());
    }

    LocalCommunicator& communicator_;
    Tensor own_;
  };

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
        throw Error(
            "{}: this rank sends a message to itself without receiving it, or the reverse, so "
            "wait() would never return",
            group_);
    }
    bool ready() override { return true; }  // it is done, or wait() throws
    Span span() const override { return state_->span; }

   private:
    std::string group_;
    std::shared_ptr<State> state_;
  };

  std::uint64_t last_call() const override { return calls_; }

  WorkPtr begin(const Collective&, const Tensor& in, const Tensor& out) override {
    ++calls_;
    auto state = std::make_shared<State>();
    state->span.begin = device_.mark();
    copy(in, out);
    state->span.end = device_.mark();
    state->done = true;
    return std::make_unique<LocalWork>(name(), std::move(state));
  }

  WorkPtr begin_message(const Tensor& array, int, bool sends) override {
    auto state = std::make_shared<State>();
    state->tensor = array;
    state->span.begin = device_.mark();
    (sends ? sent_ : received_).push_back(state);
    if (!sent_.empty() && !received_.empty()) meet();
    return std::make_unique<LocalWork>(name(), std::move(state));
  }

  /// Copies the oldest tensor that was sent into the oldest that waits to receive.
  void meet() {
    copy(sent_.front()->tensor, received_.front()->tensor);
    for (auto* end : {&sent_, &received_}) {
      end->front()->span.end = device_.mark();
      end->front()->done = true;
      end->front()->tensor = {};
      end->pop_front();
    }
  }

  void copy(const Tensor& in, const Tensor& out) {
    if (in.bytes() != out.bytes())
      throw Error("{}: {} bytes cannot be copied to {} bytes", name(), in.bytes(), out.bytes());
    const bool same = in.buffer() == out.buffer() && in.byte_offset() == out.byte_offset();
    if (in.bytes() > 0 && !same) device_.kernels().copy({.in = in, .out = out});
  }

  Device& device_;
  std::uint64_t calls_ = 0;
  std::deque<std::shared_ptr<State>> sent_, received_;
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator(Device& device, const std::string& name) {
  return std::make_unique<LocalCommunicator>(device, name);
}

}  // namespace ringside::peer
