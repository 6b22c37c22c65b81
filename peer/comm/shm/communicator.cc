#include "peer/comm/shm/communicator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/shm/peer_memory.h"
#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/checked_communicator.h"
#include "peer/comm/local.h"
#include "peer/comm/part.h"
#include "peer/comm/rma.h"
#include "peer/comm/shared_array.h"
#include "peer/comm/shm/control.h"
#include "peer/comm/shm/exchange.h"
#include "peer/comm/shm/messages.h"
#include "peer/comm/shm/work_queue.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

/// Operations run on the thread of the communicator, in order with its collectives.
class ShmWindow : public RmaWindow {
 public:
  ShmWindow(const Control& control, WorkQueue& queue, const Tensor& own, std::vector<Exposed> all)
      : RmaWindow(control.name(), control.rank(), own, std::move(all)),
        control_(control),
        queue_(queue) {}

 private:
  WorkPtr begin(const RmaOperation& access) override {
    control_.throw_if_broken();
    return queue_.submit([access] { carry_out(access); });
  }

  const Control& control_;
  WorkQueue& queue_;
};

class ShmCommunicator : public CheckedCommunicator {
 public:
  ShmCommunicator(Device& device, Store& store, const Group& group, double timeout_s,
                  Interruption* interruption)
      : CheckedCommunicator(group),
        device_(device),
        store_(store),
        algorithm_(is_program_of_messages(group.algorithm) ? group.algorithm : Algorithm::native),
        interruption_(interruption),
        control_(device, store, group, timeout_s, {}, interruption),
        messages_(device, control_, memory_),
        queue_(device) {}

  void barrier() override {
    control_.throw_if_broken();
    ++calls_;
    Operation op;
    op.purpose = take_name();
    queue_.run([&] { execute(op, [] {}); });
  }

  void complete(const std::function<WorkPtr()>& begin) override { queue_.complete(begin); }

  std::unique_ptr<Communicator> split(int colour, int key) override {
    control_.throw_if_broken();
    ++calls_;
    Operation op;
    op.call = {.kind = Collective::Kind::split, .colour = colour, .key = key};
    Group group;
    queue_.run([&] {
      execute(op, [&] {
        std::vector<Collective> calls;
        for (int r = 0; r < size(); ++r) calls.push_back(control_.of(r).call);
        group = group_of_colour(name(), number_, calls, colour, rank());
      });
    });
    group.algorithm = algorithm_;
    return make_shm_communicator(device_, store_, group, control_.timeout_s(), interruption_);
  }

  std::unique_ptr<Window> expose(const Tensor& tensor) override {
    control_.throw_if_broken();
    Operation op;
    op.call.kind = Collective::Kind::expose;
    op.purpose = take_name();
    op.address = address_of(tensor, [] { return "expose"; });
    ++calls_;
    std::vector<Exposed> all;
    // Every rank maps all tensors before any rank goes on, so no peer that ends is missed later.
    queue_.run([&] {
      execute(op, [&] {
        for (int r = 0; r < size(); ++r) {
          const shm::Address& address = control_.of(r).in;
          all.push_back({r == rank() ? own_memory(tensor) : memory_.find(address), address.bytes});
        }
      });
    });
    return std::make_unique<ShmWindow>(control_, queue_, tensor, std::move(all));
  }

  Tensor share(std::int64_t count, MemoryKind kind, DType dtype) override {
    if (algorithm_ != Algorithm::native) return {};
    control_.throw_if_broken();
    const std::size_t bytes = static_cast<std::size_t>(count * size()) * size_of(dtype);
    Operation op;
    op.call = {.kind = Collective::Kind::share, .bytes = bytes};
    op.purpose = take_name();
    shm::File file;  // rank 0 has it open until all ranks have mapped it
    if (rank() == 0 && bytes > 0) {
      try {
        file = shm::File::create(bytes, "ringside-shared");
      } catch (const Error& e) {
        control_.fail(fmt::format("{}: {} on rank 0: {}", name(), describe(op.call), e.what()));
      }
      op.address = {getpid(), file.number(), file.identity(), 0, bytes};
    }
    ++calls_;
    std::shared_ptr<std::byte> first;
    queue_.run([&] { execute(op, [&] { first = shm::PeerMemory::map(control_.of(0).in); }); });
    return shared_array(device_, std::move(first), count * size(), size(), kind, dtype);
  }

  Traffic traffic() const override {
    return Traffic{sent_.load(), received_.load()} + messages_.traffic();
  }

 private:
  struct Operation {
    Collective call;
    shm::Address address;  // of `in`
    Tensor in, out;        // this rank's
    Tensor scratch;        // for an algorithm
    std::string purpose;
  };

  WorkPtr begin(const Collective& call, const Tensor& in, const Tensor& out) override {
    control_.throw_if_broken();
    Operation op{
        call,       address_of(in, [&] { return describe(call); }), in, out, scratch_for(call, in),
        take_name()};
    ++calls_;
    return queue_.submit([this, op = std::move(op)] { execute(op, [&] { compute(op); }); });
  }

  WorkPtr begin_message(const Tensor& array, int peer, bool sends) override {
    control_.throw_if_broken();
    Messages::Operand operand{array, address_of(array, [&] { return sends ? "send" : "recv"; })};
    return sends ? messages_.send(std::move(operand), peer)
                 : messages_.receive(std::move(operand), peer);
  }

  std::uint64_t last_call() const override { return calls_; }

  /// `operation` says in an error for which operation this is.
  shm::Address address_of(const Tensor& tensor, const auto& operation) {
    try {
      return memory_.publish(tensor);
    } catch (const Error& e) {
      throw Error("{}: {}: {}", name(), operation(), e.what());
    }
  }

  /// Runs one collective between its two barriers.
  template <class Body>
  void execute(const Operation& op, Body body) {
    control_.throw_if_broken();
    const std::uint64_t number = ++number_;
    control_.arrive(number, op.call, op.address, op.purpose);
    try {
      body();
    } catch (const Error& e) {
      control_.break_group(fmt::format("{}: {} on rank {}: {}", name(), describe(number, op.call),
                                       rank(), e.what()));
    }
    control_.leave(number);
  }

  /// Taken here, on the caller's thread, so that the ledger of memory changes at the same point of
  /// every run.
  Tensor scratch_for(const Collective& call, const Tensor& in) const {
    if (algorithm_ == Algorithm::native) return {};
    const std::int64_t count = scratch_of(find_algorithm(algorithm_), call.kind, in.count());
    if (count == 0) return {};
    return device_.tensor({count}, MemoryKind::communication, in.dtype());
  }

  void compute(const Operation& op) {
    if (algorithm_ != Algorithm::native) return follow_algorithm(op);
    switch (op.call.kind) {
      case Collective::Kind::all_reduce:
        return sum_everywhere(op);
      case Collective::Kind::reduce_scatter:
        return sum_own_part(op);
      case Collective::Kind::all_gather:
        return gather(op);
      case Collective::Kind::broadcast:
        return copy_from_root(op);
      case Collective::Kind::all_to_all:
        return exchange(op);
      case Collective::Kind::barrier:
      case Collective::Kind::split:
      case Collective::Kind::expose:
      case Collective::Kind::share:
        return;
    }
  }

  void follow_algorithm(const Operation& op) {
    const std::vector<ShmExchange::Operand> operands = {
        {op.in, op.address},
        {op.out,
         op.call.kind == Collective::Kind::all_gather ? memory_.publish(op.out) : shm::Address{}},
        {op.scratch, memory_.publish(op.scratch)}};
    ShmExchange exchange(control_, memory_, number_, op.call, operands);
    run_algorithm(find_algorithm(algorithm_), op.call, exchange);
    sent_ += exchange.traffic().sent;
    received_ += exchange.traffic().received;
  }

  void gather(const Operation& op) {
    const std::size_t n = op.in.bytes();
    for (int step = 0; step < size(); ++step) {
      const int r = after(step);
      copy(r, op.in, 0, op.out, static_cast<std::size_t>(r) * n, n);
    }
  }

  void copy_from_root(const Operation& op) {
    if (rank() != op.call.root) return copy(op.call.root, op.in, 0, op.out, 0, op.in.bytes());
    sent_ += (size() - 1) * static_cast<std::int64_t>(op.in.bytes());
  }

  void exchange(const Operation& op) {
    const std::size_t n = op.in.bytes() / static_cast<std::size_t>(size());
    for (int step = 0; step < size(); ++step) {
      const int r = after(step);
      copy(r, op.in, static_cast<std::size_t>(rank()) * n, op.out, static_cast<std::size_t>(r) * n,
           n);
    }
  }

  /// The rank that is `step` ranks after this one, in a circle. Every rank begins with itself, so
  /// that ranks do not all read from the same rank at once.
  int after(int step) const { return (rank() + step) % size(); }

  static std::byte* first_byte(const Tensor& tensor) {
    return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>());
  }

  static std::shared_ptr<std::byte> own_memory(const Tensor& tensor) {
    return {tensor.buffer(), first_byte(tensor)};
  }

  /// Pointers to element `begin` of every rank's array. `held` keeps the arrays of the peers mapped
  /// for the duration of the operation.
  struct Peers {
    std::vector<std::shared_ptr<std::byte>> held;
    std::vector<std::byte*> first;
  };
  Peers peers(const Tensor& own, std::size_t begin) {
    Peers out;
    for (int r = 0; r < size(); ++r) {
      std::byte* base = first_byte(own);
      if (r != rank()) {
        out.held.push_back(memory_.find(control_.of(r).in));
        base = out.held.back().get();
      }
      out.first.push_back(base + begin * size_of(own.dtype()));
    }
    return out;
  }

  void sum_everywhere(const Operation& op) {
    const auto count = static_cast<std::size_t>(op.in.count());
    const Part part = part_of(count, rank(), size());
    count_sums(op, count, part.count, true);
    if (part.count == 0) return;
    const Peers all = peers(op.in, part.begin);
    sum_in_order(op.in.dtype(), {all.first.data(), all.first.size()}, all.first, part.count);
  }

  void sum_own_part(const Operation& op) {
    const auto count = static_cast<std::size_t>(op.out.count());
    count_sums(op, static_cast<std::size_t>(op.in.count()), count, false);
    if (count == 0) return;
    const Peers all = peers(op.in, static_cast<std::size_t>(rank()) * count);
    std::byte* target = first_byte(op.out);
    sum_in_order(op.in.dtype(), {all.first.data(), all.first.size()}, {&target, 1}, count);
  }

  /// Counts the bytes of a sum over arrays of `count` elements, of which this rank sums up `part`.
  /// This rank reads its part from the arrays of all peers, and the peers read their parts from
  /// this rank's array. With `stores`, every rank also writes the sum of its part to all peers.
  void count_sums(const Operation& op, std::size_t count, std::size_t part, bool stores) {
    const std::size_t element = size_of(op.in.dtype());
    const auto others = static_cast<std::int64_t>((count - part) * element);
    const auto own = static_cast<std::int64_t>(part * element) * (size() - 1);
    sent_ += others + (stores ? own : 0);
    received_ += own + (stores ? others : 0);
  }

  /// Copies `bytes` bytes from offset `from` of rank r's `in` (for this rank: `own`) to offset `to`
  /// of `out`. Counts the bytes as received. Except in a broadcast, rank r copies equally many
  /// bytes from this rank, so the same number is counted as sent.
  void copy(int r, const Tensor& own, std::size_t from, const Tensor& out, std::size_t to,
            std::size_t bytes) {
    if (bytes == 0) return;
    std::uint8_t* target = out.data<std::uint8_t>() + to;
    if (r == rank()) {
      const std::uint8_t* source = own.data<std::uint8_t>() + from;
      if (source != target) std::memcpy(target, source, bytes);
      return;
    }
    std::memcpy(target, memory_.find(control_.of(r).in).get() + from, bytes);
    received_ += static_cast<std::int64_t>(bytes);
    if (control_.of(r).call.kind != Collective::Kind::broadcast)
      sent_ += static_cast<std::int64_t>(bytes);
  }

  Device& device_;
  Store& store_;
  Algorithm algorithm_;
  Interruption* interruption_;
  Control control_;
  shm::PeerMemory memory_;
  std::atomic<std::int64_t> sent_{0}, received_{0};
  std::uint64_t number_ = 0;  // of the last operation that has begun
  std::uint64_t calls_ = 0;   // of the last operation that this rank has called
  Messages messages_;
  WorkQueue queue_;
};

}  // namespace

std::unique_ptr<Communicator> make_shm_communicator(Device& device, Store& store,
                                                    const Group& group, double timeout_s,
                                                    Interruption* interruption) {
  if (group.size == 1) return make_local_communicator(device, group.name);
  return std::make_unique<ShmCommunicator>(device, store, group, timeout_s, interruption);
}

}  // namespace ringside::peer
