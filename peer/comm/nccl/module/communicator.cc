// The operations of NcclCommunicator, and the search for those that failed or are late.
#include "peer/comm/nccl/module/communicator.h"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/comm/store.h"
#include "peer/comm/records.h"

namespace ringside::peer {
namespace {

/// Called by a rank that has waited for others longer than `timeout_s`, and so, at nearly the same
/// time, by all ranks that wait for the same one. Leaves this rank's records in the store for the
/// user, sends the other ranks its last operation, and returns theirs: "rank 1 of 3 says nothing;
/// rank 2: in operation 2 (all_reduce of 4096 bytes) for 0.30 s". A rank that says nothing is late,
/// stopped or dead. Blocks for at most `timeout_s`, and at most a second. To be called once in a
/// group.
std::string call_the_roll(Store& store, const Group& group, const std::vector<Record>& own,
                          const std::string& what, double now, double timeout_s) {
  const auto key = [&](int rank) { return fmt::format("where/{}/{}", group.name, rank); };
  store.set(key(group.rank), where_rank_is(own, now));
  leave_records(store, group.name, what, group.rank, group.rank + 1, [&](int) { return own; });
  const double end = seconds_now() + std::min(timeout_s, 1.0);
  std::set<int> silent;
  std::string said;
  const auto ask = [&](int rank, double timeout_s) -> std::optional<std::string> {
    try {
      return store.get(key(rank), timeout_s);
    } catch (const Error&) {
      return {};
    }
  };
  // Ask for all keys before waiting for the first answer: a store in another process needs a moment
  // for every answer, and a rank must not count as silent because a rank before it is.
  for (int r = 0; r < group.size; ++r)
    if (r != group.rank) ask(r, 0);
  for (int r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    if (const auto answer = ask(r, std::max(0.05, end - seconds_now())))
      said += fmt::format("; rank {}: {}", r, *answer);
    else
      silent.insert(r);
  }
  const std::string who = list_ranks(group.size, [&](int r) { return silent.count(r) > 0; });
  if (!who.empty())
    return fmt::format("{} {} nothing{}", who, silent.size() > 1 ? "say" : "says", said);
  return said.empty() ? said : said.substr(2);
}

void* data_of(const Tensor& tensor) { return tensor.data<std::uint8_t>(); }

ncclDataType_t type_of_sum(DType dtype) {
  if (dtype == DType::bf16) return ncclBfloat16;
  return dtype == DType::f16 ? ncclFloat16 : ncclFloat32;
}

}  // namespace

class NcclCommunicator::NcclWork final : public Work {
 public:
  NcclWork(NcclCommunicator& communicator, OperationPtr operation)
      : communicator_(communicator), operation_(std::move(operation)) {}
  ~NcclWork() override {
    if (operation_->waited_for) return;
    try {
      communicator_.wait(operation_, std::uncaught_exceptions() == exceptions_);
    } catch (const Error&) {
      // The next call throws the same error.
    }
  }
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;

  void wait() override { communicator_.wait(operation_, true); }
  bool ready() override { return communicator_.ended(*operation_); }
  Span span() const override { return operation_->span; }

 private:
  NcclCommunicator& communicator_;
  const OperationPtr operation_;
  const int exceptions_ = std::uncaught_exceptions();
};

NcclCommunicator::NcclCommunicator(cuda::CudaDevice& device, Store& store, Handle handle,
                                   double timeout_s)
    : CheckedCommunicator(handle.self()),
      device_(device),
      store_(store),
      timeout_s_(timeout_s),
      lane_(device, std::move(handle), timeout_s,
            [this] {
              note_ended();
              return call_the_roll(store_, lane_.handle().self(), records_.list(), "a rank is late",
                                   device_.clock().now(), timeout_s_);
            }),
      messages_(device, store, lane_.handle().self(), timeout_s) {
  device_.watch(*this);
}

NcclCommunicator::~NcclCommunicator() {
  device_.unwatch(*this);
  // After an error on this rank the other ranks do not end normally, so finish() would wait for
  // them in vain.
  if (!failure_.empty() || std::uncaught_exceptions() > exceptions_) return;
  if (messages_.finish()) lane_.finish();
}

WorkPtr NcclCommunicator::begin(const Collective& call, const Tensor& in, const Tensor& out) {
  const std::lock_guard lock(mutex_);
  return guarded([&] {
    const auto operation =
        std::make_shared<Operation>(Operation{describe(++number_, call), number_, in, out});
    records_.begin(number_, call, take_name(), device_.clock().now());
    lane_.launch(operation, device_.mark(), [&] { return enqueue(call, in, out); });
    // This loop needs no deadline of its own: it waits only while ranks meet for the first time,
    // and then is_through() throws at the deadline.
    poll(device_.clock(), std::numeric_limits<double>::infinity(), [&] {
      messages_.advance();
      return lane_.is_through();
    });
    traffic_ = traffic_ + traffic_of(call, rank(), size(), size_of(in.dtype()));
    return std::make_unique<NcclWork>(*this, operation);
  });
}

ncclResult_t NcclCommunicator::enqueue(const Collective& call, const Tensor& in,
                                       const Tensor& out) {
  const ncclComm_t comm = lane_.handle().get();
  const cudaStream_t stream = lane_.stream();
  const ncclDataType_t type = type_of_sum(in.dtype());
  switch (call.kind) {
    case Collective::Kind::all_reduce:
    case Collective::Kind::barrier:
      return ncclAllReduce(data_of(in), data_of(out), static_cast<std::size_t>(in.count()), type,
                           ncclSum, comm, stream);
    case Collective::Kind::reduce_scatter:
      return ncclReduceScatter(data_of(in), data_of(out), static_cast<std::size_t>(out.count()),
                               type, ncclSum, comm, stream);
    case Collective::Kind::all_gather:
      return ncclAllGather(data_of(in), data_of(out), in.bytes(), ncclUint8, comm, stream);
    case Collective::Kind::broadcast:
      return ncclBroadcast(data_of(in), data_of(out), in.bytes(), ncclUint8, call.root, comm,
                           stream);
    case Collective::Kind::all_to_all:
      return enqueue_exchange(in, out);
    case Collective::Kind::split:
    case Collective::Kind::expose:
    case Collective::Kind::share:
      break;  // split() calls Handle::split() instead
  }
  return ncclInvalidUsage;
}

ncclResult_t NcclCommunicator::enqueue_exchange(const Tensor& in, const Tensor& out) {
  const ncclComm_t comm = lane_.handle().get();
  const std::size_t part = in.bytes() / static_cast<std::size_t>(size());
  ncclResult_t result = ncclGroupStart();
  const auto add = [&](ncclResult_t added) {
    if (result == ncclSuccess && added != ncclInProgress) result = added;
  };
  for (int r = 0; r < size(); ++r) {
    const std::size_t at = static_cast<std::size_t>(r) * part;
    add(ncclSend(in.data<std::uint8_t>() + at, part, ncclUint8, r, comm, lane_.stream()));
    add(ncclRecv(out.data<std::uint8_t>() + at, part, ncclUint8, r, comm, lane_.stream()));
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

WorkPtr NcclCommunicator::begin_message(const Tensor& array, int peer, bool sends) {
  const std::lock_guard lock(mutex_);
  return guarded([&] {
    const std::string what =
        fmt::format("message of {} bytes from rank {} to rank {}", array.bytes(),
                    sends ? rank() : peer, sends ? peer : rank());
    const OperationPtr message = messages_.post(what, array, peer, sends);
    if (peer != rank())
      (sends ? traffic_.sent : traffic_.received) += static_cast<std::int64_t>(array.bytes());
    return std::make_unique<NcclWork>(*this, message);
  });
}

void NcclCommunicator::barrier() {
  const Tensor nothing = device_.tensor({1}, MemoryKind::communication);
  device_.kernels().fill({.out = nothing});
  const WorkPtr work = begin({}, nothing, nothing);
  work->wait();
  device_.time(work->span().end);
}

std::unique_ptr<Communicator> NcclCommunicator::split(int colour, int key) {
  if (colour < 0) throw Error("{}: split: colour {} must be 0 or more", name(), colour);
  std::optional<Mark> end;
  {
    const std::lock_guard lock(mutex_);
    if (lane_.is_busy()) end = lane_.last();
  }
  if (end) device_.time(*end);
  const std::lock_guard lock(mutex_);
  return guarded([&]() -> std::unique_ptr<Communicator> {
    const std::string group = fmt::format("{}/{}.{}", name(), ++number_, colour);
    records_.begin(number_, {.kind = Collective::Kind::split}, {}, device_.clock().now());
    Handle handle = lane_.handle().split(colour, key, group, device_.clock(), timeout_s_);
    return std::make_unique<NcclCommunicator>(device_, store_, std::move(handle), timeout_s_);
  });
}

std::uint64_t NcclCommunicator::last_call() const {
  const std::lock_guard lock(mutex_);
  return number_;
}

Traffic NcclCommunicator::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

void NcclCommunicator::check() {
  // Does not wait for a thread that holds the lock: that thread looks for errors itself, and may
  // hold the lock until the deadline.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  guarded([&] {
    messages_.advance();
    look();
  });
}

void NcclCommunicator::wait(const OperationPtr& operation, bool blocks) {
  const std::lock_guard lock(mutex_);
  if (blocks && !operation->launched) guarded([&] { messages_.launch(*operation); });
  if (operation->launched && !operation->waited_for) {
    device_.wait_on(device_.compute_stream(), operation->span.end);
    operation->waited_for = true;
    operation->in = operation->out = {};
  }
  guarded([&] { look(); });
}

bool NcclCommunicator::ended(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  return operation.launched && device_.reached(operation.span.end);
}

void NcclCommunicator::look() {
  lane_.look();
  messages_.look();
  note_ended();
}

void NcclCommunicator::note_ended() {
  const Operation* first = lane_.first();
  const std::uint64_t ended = first ? first->number - 1 : number_;
  while (ended_ < ended) records_.end(++ended_, device_.clock().now());
}

}  // namespace ringside::peer
