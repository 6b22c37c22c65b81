#include "peer/comm/sim/communicator.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "peer/comm/local.h"
#include "peer/comm/sim/group.h"
#include "peer/comm/sim/messages.h"
#include "peer/comm/sim/rings.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

void start_services(const std::shared_ptr<SimGroup>& group) {
  if (group->world().cluster().collective.kind == "shm")
    serve_one_pass(group);
  else if (group->size() <= group->options().message_ranks)
    serve_messages(group);
  else
    serve_flows(group);
}

/// True while an exception takes away what was made under fewer of them. Then nothing may call the
/// world: it may be ending the actor, and actors share one thread and so its count of exceptions,
/// which must be back where it was when another one runs.
class Unwinding {
 public:
  bool now() const { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

class CollectiveWork : public Work {
 public:
  CollectiveWork(sim::SimDevice& device, std::shared_ptr<SimGroup> group,
                 SimGroup::OperationPtr operation, int rank)
      : device_(device), group_(std::move(group)), operation_(std::move(operation)), rank_(rank) {}
  ~CollectiveWork() override {
    if (group_->ended(*operation_, rank_) || group_->broken()) return;
    if (unwinding_.now()) {
      group_->abandon(
          rank_, fmt::format("operation {} ({})", operation_->number, describe(operation_->call)));
      return;
    }
    try {
      wait();
    } catch (...) {  // whoever waits for a later operation learns of it
    }
  }
  CollectiveWork(const CollectiveWork&) = delete;
  CollectiveWork& operator=(const CollectiveWork&) = delete;

  void wait() override {
    device_.catch_up();
    group_->await(*operation_, rank_);
  }
  Span span() const override {
    const auto& part = operation_->parts[static_cast<std::size_t>(rank_)];
    return {{part.arrival}, {part.end}};
  }

 private:
  Unwinding unwinding_;
  sim::SimDevice& device_;
  std::shared_ptr<SimGroup> group_;
  SimGroup::OperationPtr operation_;
  int rank_;
};

class MessageWork : public Work {
 public:
  MessageWork(sim::SimDevice& device, std::shared_ptr<SimGroup> group,
              SimMessages::MessagePtr message)
      : device_(device), group_(std::move(group)), message_(std::move(message)) {}
  ~MessageWork() override {
    if (message_->done || group_->broken()) return;
    if (unwinding_.now()) {
      group_->abandon(message_->owner(), fmt::format("a message from rank {} to rank {}",
                                                     message_->from, message_->to));
      return;
    }
    try {
      wait();
    } catch (...) {
    }
  }
  MessageWork(const MessageWork&) = delete;
  MessageWork& operator=(const MessageWork&) = delete;

  void wait() override {
    device_.catch_up();
    group_->messages().await(*message_);
  }
  Span span() const override { return {{message_->begin}, {message_->end}}; }

 private:
  Unwinding unwinding_;
  sim::SimDevice& device_;
  std::shared_ptr<SimGroup> group_;
  SimMessages::MessagePtr message_;
};

class SimCommunicator : public Communicator {
 public:
  SimCommunicator(sim::SimDevice& device, const std::string& name, int rank, int size,
                  const SimOptions& options)
      : Communicator(rank, size),
        device_(device),
        group_(SimGroup::join(device, name, rank, size, options, start_services)) {}
  ~SimCommunicator() override { group_->leave(rank(), unwinding_.now()); }
  SimCommunicator(const SimCommunicator&) = delete;
  SimCommunicator& operator=(const SimCommunicator&) = delete;

  WorkPtr all_reduce(const Tensor& array) override {
    return submit(Call::Kind::all_reduce, array, array, array);
  }
  WorkPtr reduce_scatter(const Tensor& array, const Tensor& part) override {
    check_parts("reduce_scatter", array, part);
    return submit(Call::Kind::reduce_scatter, array, array, part);
  }
  WorkPtr all_gather(const Tensor& part, const Tensor& array) override {
    check_parts("all_gather", array, part);
    return submit(Call::Kind::all_gather, array, part, array);
  }
  WorkPtr broadcast(const Tensor& array, int root) override {
    check_rank("broadcast", root);
    return submit(Call::Kind::broadcast, array, array, array, root);
  }
  WorkPtr all_to_all(const Tensor& in, const Tensor& out) override {
    if (in.count() != out.count() || in.count() % size() != 0)
      throw Error(
          "{}: all_to_all of {} elements into {} among {} ranks; both must be the same "
          "multiple of the ranks",
          group_->name(), in.count(), out.count(), size());
    return submit(Call::Kind::all_to_all, in, in, out);
  }

  WorkPtr send(const Tensor& array, int to) override {
    check_rank("send", to);
    return post("send", array, true, rank(), to);
  }
  WorkPtr recv(const Tensor& array, int from) override {
    check_rank("recv", from);
    return post("recv", array, false, from, rank());
  }

  void barrier() override { submit(Call::Kind::barrier, {}, {}, {})->wait(); }

  std::unique_ptr<Communicator> split(int colour, int key) override {
    Call call;
    call.kind = Call::Kind::split;
    call.colour = colour;
    call.order = key;
    device_.catch_up();
    const auto operation = group_->call(rank(), call, {}, {});
    group_->await(*operation, rank());
    std::vector<std::pair<int, int>> members;  // (key, rank)
    for (int r = 0; r < size(); ++r)
      if (const Call& other = operation->parts[static_cast<std::size_t>(r)].call;
          other.colour == colour)
        members.emplace_back(other.order, r);
    std::sort(members.begin(), members.end());
    const auto here = std::find(members.begin(), members.end(), std::pair(key, rank()));
    return make_sim_communicator(device_,
                                 fmt::format("{}/{}.{}", group_->name(), operation->number, colour),
                                 static_cast<int>(here - members.begin()),
                                 static_cast<int>(members.size()), group_->options());
  }

  Traffic traffic() const override { return group_->traffic(rank()); }

 private:
  /// `whole` is the array whose size ranks must agree on, `in` the one that peers see.
  WorkPtr submit(Call::Kind kind, const Tensor& whole, const Tensor& in, const Tensor& out,
                 int root = 0) {
    group_->throw_if_broken();
    Call call;
    call.kind = kind;
    call.root = root;
    call.bytes = whole.bytes();
    check_tensor(describe(call), in);
    device_.catch_up();
    return std::make_unique<CollectiveWork>(device_, group_, group_->call(rank(), call, in, out),
                                            rank());
  }

  WorkPtr post(const char* what, const Tensor& array, bool sending, int from, int to) {
    group_->throw_if_broken();
    check_tensor(what, array);
    device_.catch_up();
    return std::make_unique<MessageWork>(device_, group_,
                                         group_->messages().post(array, sending, from, to));
  }

  /// What other communicators refuse is refused here, so that a program that runs on simulated
  /// devices runs on others.
  void check_tensor(const std::string& what, const Tensor& tensor) const {
    if (tensor && !summable(tensor.dtype()))
      throw Error("{}: {}: peers cannot use a tensor of {}, only fp32, bf16 and fp16",
                  group_->name(), what, name_of(tensor.dtype()));
    if (tensor.bytes() == 0) return;
    const MemoryKind kind = tensor.buffer()->kind();
    if (kind != MemoryKind::parameter && kind != MemoryKind::gradient &&
        kind != MemoryKind::communication)
      throw Error(
          "{}: {}: peers cannot see a tensor of kind {}; allocate it as parameter, gradient or "
          "communication",
          group_->name(), what, name_of(kind));
  }

  void check_parts(const char* what, const Tensor& array, const Tensor& part) const {
    if (array.count() != part.count() * size())
      throw Error("{}: {}: {} parts of {} elements do not make an array of {}", group_->name(),
                  what, size(), part.count(), array.count());
  }

  void check_rank(const char* what, int rank) const {
    if (rank < 0 || rank >= size())
      throw Error("{}: {}: no rank {} among {}", group_->name(), what, rank, size());
  }

  Unwinding unwinding_;
  sim::SimDevice& device_;
  std::shared_ptr<SimGroup> group_;
};

}  // namespace

std::unique_ptr<Communicator> make_sim_communicator(sim::SimDevice& device, const std::string& name,
                                                    int rank, int size, const SimOptions& options) {
  if (size == 1) return make_local_communicator(device, name);
  return std::make_unique<SimCommunicator>(device, name, rank, size, options);
}

}  // namespace ringside::peer
