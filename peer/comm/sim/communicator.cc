#include "peer/comm/sim/communicator.h"

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/comm/window.h"
#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/checked_communicator.h"
#include "peer/comm/local.h"
#include "peer/comm/shared_array.h"
#include "peer/comm/sim/algorithm.h"
#include "peer/comm/sim/group.h"
#include "peer/comm/sim/hosts.h"
#include "peer/comm/sim/messages.h"
#include "peer/comm/sim/rings.h"

namespace ringside::peer {
namespace {

/// A member by which a destructor learns whether an exception destroys its object: more exceptions
/// are under way in the destructor than when the object was made. A destructor that an exception
/// called must not call the world, for two reasons. The world itself may have thrown the exception,
/// to end the actor. And the call may let another actor run. All actors share one thread, and
/// std::uncaught_exceptions() counts the exceptions of the thread, so the other actor would take
/// this exception for its own.
class Unwinding {
 public:
  bool now() const { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

class TransferWork : public Work {
 public:
  TransferWork(sim::SimDevice& device, std::shared_ptr<SimGroup> group,
               SimAccesses::TransferPtr transfer)
      : device_(device), group_(std::move(group)), transfer_(std::move(transfer)) {}
  ~TransferWork() override {
    if (!transfer_->done && !unwinding_.now()) group_->accesses().await(*transfer_);
  }
  TransferWork(const TransferWork&) = delete;
  TransferWork& operator=(const TransferWork&) = delete;

  void wait() override {
    device_.catch_up();
    group_->accesses().await(*transfer_);
  }
  bool ready() override {
    device_.catch_up();
    return transfer_->done;
  }
  Span span() const override { return {{transfer_->begin}, {transfer_->end}}; }

 private:
  Unwinding unwinding_;
  sim::SimDevice& device_;
  std::shared_ptr<SimGroup> group_;
  SimAccesses::TransferPtr transfer_;
};

class SimWindow : public RmaWindow {
 public:
  SimWindow(sim::SimDevice& device, std::shared_ptr<SimGroup> group, int rank, std::size_t number,
            const Tensor& own)
      : RmaWindow(group->name(), rank, own, group->accesses().memory(number)),
        device_(device),
        group_(std::move(group)),
        rank_(rank) {}

 private:
  WorkPtr begin(const RmaOperation& access) override {
    group_->throw_if_broken();
    if (group_->gone(access.owner))
      throw Error("{}: rank {} of {} has left, and its memory with it", group_->name(),
                  access.owner, group_->size());
    device_.catch_up();
    carry_out(access);
    return std::make_unique<TransferWork>(device_, group_, group_->accesses().start(rank_, access));
  }

  sim::SimDevice& device_;
  std::shared_ptr<SimGroup> group_;
  int rank_;
};

/// Makes rank `rank`'s side of window `number` of the group (SimAccesses::expose), of which `own`
/// is the rank's tensor. All ranks have exposed theirs. Values move when an operation begins, and
/// its time passes afterwards: ranks do not touch the elements of others' operations meanwhile.
std::unique_ptr<Window> make_sim_window(sim::SimDevice& device, std::shared_ptr<SimGroup> group,
                                        int rank, std::size_t number, const Tensor& own) {
  return std::make_unique<SimWindow>(device, std::move(group), rank, number, own);
}

/// Collectives of a group whose messages take a stated time: they wait for all ranks and take none.
void serve_at_once(const std::shared_ptr<SimGroup>& group) {
  group->world().spawn(
      group->name() + " collectives", group->place(0),
      [group] {
        std::uint64_t number = 0;
        while (const SimGroup::OperationPtr operation = group->next(-1, ++number))
          group->finish_all(operation);
      },
      true);
}

void start_services(const std::shared_ptr<SimGroup>& group) {
  if (group->options().message_s)
    serve_at_once(group);
  else if (group->algorithm() != Algorithm::native)
    serve_algorithm(group);
  else if (group->shares_memory())
    serve_one_pass(group);
  else if (sim::shares_memory(group->world().cluster()))
    serve_hosts(group);
  else if (group->by_messages())
    serve_messages(group);
  else
    serve_flows(group);
}

class CollectiveWork : public Work {
 public:
  CollectiveWork(sim::SimDevice& device, std::shared_ptr<SimGroup> group,
                 SimGroup::OperationPtr operation, int rank)
      : device_(device), group_(std::move(group)), operation_(std::move(operation)), rank_(rank) {}
  ~CollectiveWork() override {
    if (group_->ended(*operation_, rank_) || group_->broken()) return;
    if (unwinding_.now()) {
      group_->abandon(rank_, describe(operation_->number, operation_->call));
      return;
    }
    try {
      wait();
    } catch (...) {  // the group is broken now, so later operations throw this error
    }
  }
  CollectiveWork(const CollectiveWork&) = delete;
  CollectiveWork& operator=(const CollectiveWork&) = delete;

  void wait() override {
    device_.catch_up();
    group_->await(*operation_, rank_);
  }
  bool ready() override {
    device_.catch_up();
    return group_->ended(*operation_, rank_) || group_->broken();
  }
  Span span() const override {
    const auto& entry = operation_->entries[static_cast<std::size_t>(rank_)];
    return {{entry.arrival}, {entry.end}};
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
  bool ready() override {
    device_.catch_up();
    return message_->done || group_->broken();
  }
  Span span() const override { return {{message_->begin}, {message_->end}}; }

 private:
  Unwinding unwinding_;
  sim::SimDevice& device_;
  std::shared_ptr<SimGroup> group_;
  SimMessages::MessagePtr message_;
};

class SimCommunicator : public CheckedCommunicator {
 public:
  SimCommunicator(sim::SimDevice& device, const Group& group, const SimOptions& options)
      : CheckedCommunicator(group),
        device_(device),
        group_(SimGroup::join(device, group, options, start_services)) {}
  ~SimCommunicator() override { group_->leave(rank(), unwinding_.now()); }
  SimCommunicator(const SimCommunicator&) = delete;
  SimCommunicator& operator=(const SimCommunicator&) = delete;

  void barrier() override { begin({}, {}, {})->wait(); }

  std::unique_ptr<Communicator> split(int colour, int key) override {
    const Collective call{.kind = Collective::Kind::split, .colour = colour, .key = key};
    device_.catch_up();
    const auto operation = group_->call(rank(), call, {}, {}, {}, {});
    last_call_ = operation->number;
    group_->await(*operation, rank());
    std::vector<Collective> calls;
    for (const SimGroup::Entry& entry : operation->entries) calls.push_back(entry.call);
    Group group = group_of_colour(name(), operation->number, calls, colour, rank());
    group.algorithm = group_->algorithm();
    return make_sim_communicator(device_, group, group_->options());
  }

  std::unique_ptr<Window> expose(const Tensor& tensor) override {
    group_->throw_if_broken();
    check_tensor("expose", tensor);
    const std::size_t number = group_->accesses().expose(rank(), tensor);
    barrier();  // afterwards all ranks have exposed a tensor
    return make_sim_window(device_, group_, rank(), number, tensor);
  }

  Tensor share(std::int64_t count, MemoryKind kind, DType dtype) override {
    if (group_->algorithm() != Algorithm::native || !group_->shares_memory()) return {};
    group_->throw_if_broken();
    const std::int64_t all = count * size();
    const std::size_t bytes = static_cast<std::size_t>(all) * size_of(dtype);
    auto first = group_->accesses().share(rank(), bytes, device_.has_values());
    begin({.kind = Collective::Kind::share, .bytes = bytes}, {}, {})->wait();
    return shared_array(device_, std::move(first), all, size(), kind, dtype);
  }

  Traffic traffic() const override { return group_->traffic(rank()); }

 private:
  WorkPtr begin(const Collective& call, const Tensor& in, const Tensor& out) override {
    group_->throw_if_broken();
    check_tensor(describe(call), in);
    // Under an algorithm ranks pass on what they have gathered.
    if (group_->algorithm() != Algorithm::native && call.kind == Collective::Kind::all_gather)
      check_tensor(describe(call), out);
    device_.catch_up();
    const Tensor& whole = out.count() > in.count() ? out : in;
    auto operation = group_->call(rank(), call, take_name(), in, out, scratch_for(call, whole));
    last_call_ = operation->number;
    return std::make_unique<CollectiveWork>(device_, group_, std::move(operation), rank());
  }

  std::uint64_t last_call() const override { return last_call_; }

  WorkPtr begin_message(const Tensor& array, int peer, bool sends) override {
    group_->throw_if_broken();
    device_.catch_up();
    return std::make_unique<MessageWork>(
        device_, group_,
        group_->messages().post(array, sends, sends ? rank() : peer, sends ? peer : rank()));
  }

  Tensor scratch_for(const Collective& call, const Tensor& whole) const {
    if (group_->algorithm() == Algorithm::native) return {};
    const std::int64_t count = scratch_of(group_->row_of(call, whole), call.kind, whole.count());
    if (count == 0) return {};
    return device_.tensor({count}, MemoryKind::communication, whole.dtype());
  }

  /// A tensor that other communicators refuse is refused here too, so that a program that runs on
  /// simulated devices also runs on others.
  void check_tensor(const std::string& what, const Tensor& tensor) const {
    if (tensor.bytes() == 0) return;
    const MemoryKind kind = tensor.buffer()->kind();
    if (kind != MemoryKind::parameter && kind != MemoryKind::gradient &&
        kind != MemoryKind::communication)
      throw Error(
          "{}: {}: peers cannot see a tensor of kind {}; allocate it as parameter, gradient or "
          "communication",
          name(), what, name_of(kind));
  }

  Unwinding unwinding_;
  sim::SimDevice& device_;
  std::shared_ptr<SimGroup> group_;
  std::uint64_t last_call_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_sim_communicator(sim::SimDevice& device, const Group& group,
                                                    const SimOptions& options) {
  if (group.size == 1) return make_local_communicator(device, group.name);
  return std::make_unique<SimCommunicator>(device, group, options);
}

}  // namespace ringside::peer
