#include "peer/comm/shm.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "peer/comm/control.h"
#include "peer/comm/local.h"
#include "peer/comm/messages.h"
#include "peer/comm/part.h"
#include "peer/comm/peer_memory.h"
#include "peer/comm/sum.h"
#include "peer/comm/work_queue.h"

namespace ringside::peer {
namespace {

class ShmCommunicator : public Communicator {
 public:
  ShmCommunicator(Device& device, Store& store, const std::string& name, int rank, int size,
                  double timeout_s)
      : Communicator(rank, size),
        device_(device),
        store_(store),
        control_(device, store, name, rank, size, timeout_s),
        messages_(device, control_, memory_),
        queue_(device) {}

  WorkPtr all_reduce(const Tensor& array) override {
    Operation op = operation(Call::Kind::all_reduce, array, array, array);
    return submit(std::move(op), [this](const Operation& op) { sum_everywhere(op); });
  }

  WorkPtr reduce_scatter(const Tensor& array, const Tensor& part) override {
    check_parts("reduce_scatter", array, part);
    Operation op = operation(Call::Kind::reduce_scatter, array, array, part);
    return submit(std::move(op), [this](const Operation& op) { sum_own_part(op); });
  }

  WorkPtr all_gather(const Tensor& part, const Tensor& array) override {
    check_parts("all_gather", array, part);
    Operation op = operation(Call::Kind::all_gather, array, part, array);
    return submit(std::move(op), [this](const Operation& op) {
      const std::size_t n = op.in.bytes();
      for (int step = 0; step < size(); ++step) {
        const int r = after(step);
        copy(r, op.in, 0, op.out, static_cast<std::size_t>(r) * n, n);
      }
    });
  }

  WorkPtr broadcast(const Tensor& array, int root) override {
    check_rank("broadcast", root);
    Operation op = operation(Call::Kind::broadcast, array, array, array);
    op.call.root = root;
    return submit(std::move(op), [this, root](const Operation& op) {
      if (rank() != root) return copy(root, op.in, 0, op.out, 0, op.in.bytes());
      sent_ += (size() - 1) * static_cast<std::int64_t>(op.in.bytes());
    });
  }

  WorkPtr all_to_all(const Tensor& in, const Tensor& out) override {
    if (in.count() != out.count() || in.count() % size() != 0)
      throw Error(
          "{}: all_to_all of {} elements into {} among {} ranks; both must be the same "
          "multiple of the ranks",
          control_.name(), in.count(), out.count(), size());
    Operation op = operation(Call::Kind::all_to_all, in, in, out);
    return submit(std::move(op), [this](const Operation& op) {
      const std::size_t n = op.in.bytes() / static_cast<std::size_t>(size());
      for (int step = 0; step < size(); ++step) {
        const int r = after(step);
        copy(r, op.in, static_cast<std::size_t>(rank()) * n, op.out,
             static_cast<std::size_t>(r) * n, n);
      }
    });
  }

  WorkPtr send(const Tensor& array, int to) override {
    check_rank("send", to);
    control_.throw_if_broken();
    return messages_.send({array, place("send", array)}, to);
  }

  WorkPtr recv(const Tensor& array, int from) override {
    check_rank("recv", from);
    control_.throw_if_broken();
    return messages_.receive({array, place("recv", array)}, from);
  }

  void barrier() override {
    control_.throw_if_broken();
    queue_.run([this] { execute({}, [](const Operation&) {}); });
  }

  std::unique_ptr<Communicator> split(int colour, int key) override {
    control_.throw_if_broken();
    Operation op;
    op.call.kind = Call::Kind::split;
    op.call.colour = colour;
    op.call.order = key;
    std::vector<std::pair<int, int>> group;  // (key, rank)
    std::string name;
    queue_.run([&] {
      execute(op, [&](const Operation&) {
        for (int r = 0; r < size(); ++r)
          if (const Call& call = control_.of(r).call; call.colour == colour)
            group.emplace_back(call.order, r);
        name = fmt::format("{}/{}.{}", control_.name(), number_, colour);
      });
    });
    std::sort(group.begin(), group.end());
    const auto here = std::find(group.begin(), group.end(), std::pair(key, rank()));
    return make_shm_communicator(device_, store_, name, static_cast<int>(here - group.begin()),
                                 static_cast<int>(group.size()), control_.timeout_s());
  }

  Traffic traffic() const override {
    return Traffic{sent_.load(), received_.load()} + messages_.traffic();
  }

 private:
  struct Operation {
    Call call;
    Tensor in, out;  // this rank's
  };

  /// `whole` is the array whose size ranks must agree on, `in` the one that peers see.
  Operation operation(Call::Kind kind, const Tensor& whole, const Tensor& in, const Tensor& out) {
    control_.throw_if_broken();
    Operation op;
    op.call.kind = kind;
    op.call.bytes = whole.bytes();
    op.call.in = place(describe(op.call), in);
    op.in = in;
    op.out = out;
    return op;
  }

  Place place(const std::string& what, const Tensor& tensor) {
    try {
      return memory_.publish(tensor);
    } catch (const Error& e) {
      throw Error("{}: {}: {}", control_.name(), what, e.what());
    }
  }

  void check_parts(const char* what, const Tensor& array, const Tensor& part) const {
    if (array.count() != part.count() * size())
      throw Error("{}: {}: {} parts of {} elements do not make an array of {}", control_.name(),
                  what, size(), part.count(), array.count());
  }

  void check_rank(const char* what, int rank) const {
    if (rank < 0 || rank >= size())
      throw Error("{}: {}: no rank {} among {}", control_.name(), what, rank, size());
  }

  template <class Body>
  WorkPtr submit(Operation op, Body body) {
    return queue_.submit([this, op = std::move(op), body] { execute(op, body); });
  }

  /// One collective, between its two barriers.
  template <class Body>
  void execute(const Operation& op, Body body) {
    control_.throw_if_broken();
    const std::uint64_t number = ++number_;
    control_.arrive(number, op.call);
    try {
      body(op);
    } catch (const Error& e) {
      control_.break_group(fmt::format("{}: operation {} ({}) on rank {}: {}", control_.name(),
                                       number, describe(op.call), rank(), e.what()));
    }
    control_.leave(number);
  }

  /// This rank first, then those after it: ranks do not all begin with the same memory.
  int after(int step) const { return (rank() + step) % size(); }

  static std::byte* first_byte(const Tensor& tensor) {
    return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>());
  }

  /// Element `begin` of every rank's array, mapped for the time of the operation.
  struct Peers {
    std::vector<std::shared_ptr<std::byte>> held;
    std::vector<std::byte*> first;
  };
  Peers peers(const Tensor& own, std::size_t begin) {
    Peers out;
    for (int r = 0; r < size(); ++r) {
      std::byte* base = first_byte(own);
      if (r != rank()) {
        out.held.push_back(memory_.find(control_.of(r).call.in));
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

  /// Peers read what is not this rank's part of its array; this rank reads its part of theirs and,
  /// with `stores`, writes it to theirs.
  void count_sums(const Operation& op, std::size_t count, std::size_t part, bool stores) {
    const std::size_t element = size_of(op.in.dtype());
    const auto others = static_cast<std::int64_t>((count - part) * element);
    const auto own = static_cast<std::int64_t>(part * element) * (size() - 1);
    sent_ += others + (stores ? own : 0);
    received_ += own + (stores ? others : 0);
  }

  /// `bytes` from rank r's `in`; the same number goes from here to rank r, or none in a broadcast.
  void copy(int r, const Tensor& own, std::size_t from, const Tensor& out, std::size_t to,
            std::size_t bytes) {
    if (bytes == 0) return;
    std::uint8_t* target = out.data<std::uint8_t>() + to;
    if (r == rank()) {
      const std::uint8_t* source = own.data<std::uint8_t>() + from;
      if (source != target) std::memcpy(target, source, bytes);
      return;
    }
    const Call& call = control_.of(r).call;
    std::memcpy(target, memory_.find(call.in).get() + from, bytes);
    received_ += static_cast<std::int64_t>(bytes);
    if (call.kind != Call::Kind::broadcast) sent_ += static_cast<std::int64_t>(bytes);
  }

  Device& device_;
  Store& store_;
  Control control_;
  PeerMemory memory_;
  std::atomic<std::int64_t> sent_{0}, received_{0};
  std::uint64_t number_ = 0;  // of the last operation
  Messages messages_;
  WorkQueue queue_;
};

}  // namespace

std::unique_ptr<Communicator> make_shm_communicator(Device& device, Store& store,
                                                    const std::string& name, int rank, int size,
                                                    double timeout_s) {
  if (size == 1) return make_local_communicator(device, name);
  return std::make_unique<ShmCommunicator>(device, store, name, rank, size, timeout_s);
}

}  // namespace ringside::peer
