// Collectives of NCCL, between marks, and the watch over them.
#include "peer/comm/nccl/module/communicator.h"

#include <limits>
#include <optional>
#include <utility>

#include "peer/comm/part.h"

namespace ringside::peer {
namespace {

void* data_of(const Tensor& tensor) { return tensor.data<std::uint8_t>(); }

std::int64_t bytes_of(const Tensor& tensor) { return static_cast<std::int64_t>(tensor.bytes()); }

std::string described(const char* what, const Tensor& array) {
  return fmt::format("{} of {} bytes", what, array.bytes());
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
      // Whatever is called next says the same.
    }
  }
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;

  void wait() override { communicator_.wait(operation_, true); }
  Span span() const override { return operation_->span; }

 private:
  NcclCommunicator& communicator_;
  const OperationPtr operation_;
  const int exceptions_ = std::uncaught_exceptions();
};

NcclCommunicator::NcclCommunicator(cuda::CudaDevice& device, Store& store, Handle handle,
                                   double timeout_s)
    : Communicator(handle.self().rank, handle.self().size),
      device_(device),
      store_(store),
      timeout_s_(timeout_s),
      name_(handle.self().group),
      lane_(device, std::move(handle), timeout_s),
      messages_(device, store, lane_.handle().self(), timeout_s) {
  device_.watch(*this);
}

NcclCommunicator::~NcclCommunicator() {
  device_.unwatch(*this);
  // Others do not end in order while this rank's error is under way to them.
  if (!failure_.empty() || std::uncaught_exceptions() > exceptions_) return;
  if (messages_.finish()) lane_.finish();
}

template <class Call>
WorkPtr NcclCommunicator::submit(const std::string& what, const Tensor& in, const Tensor& out,
                                 const Traffic& bytes, const Call& call) {
  const std::lock_guard lock(mutex_);
  return guarded([&] {
    const auto operation = std::make_shared<Operation>(
        Operation{fmt::format("operation {} ({})", ++number_, what), in, out});
    lane_.launch(operation, device_.mark(), call);
    // Only where ranks meet for the first time does this take long; it has a deadline.
    poll(device_.clock(), std::numeric_limits<double>::infinity(), [&] {
      messages_.advance();
      return lane_.settled();
    });
    traffic_ = traffic_ + bytes;
    return std::make_unique<NcclWork>(*this, operation);
  });
}

WorkPtr NcclCommunicator::all_reduce(const Tensor& array) {
  // As if this rank summed up its part of the others' arrays and sent them the sum.
  const Part own = part_of(static_cast<std::size_t>(array.count()), rank(), size());
  const auto part = static_cast<std::int64_t>(own.count * size_of(array.dtype()));
  const std::int64_t bytes = bytes_of(array) - part + (size() - 1) * part;
  return sum(described("all_reduce", array), array, {bytes, bytes});
}

WorkPtr NcclCommunicator::sum(const std::string& what, const Tensor& array, const Traffic& bytes) {
  const ncclDataType_t type = sum_type("all_reduce", array);
  return submit(what, array, array, bytes, [&] {
    return ncclAllReduce(data_of(array), data_of(array), static_cast<std::size_t>(array.count()),
                         type, ncclSum, lane_.handle().get(), lane_.stream());
  });
}

WorkPtr NcclCommunicator::reduce_scatter(const Tensor& array, const Tensor& part) {
  check_parts("reduce_scatter", array, part);
  const ncclDataType_t type = sum_type("reduce_scatter", array);
  const std::int64_t bytes = (size() - 1) * bytes_of(part);
  return submit(described("reduce_scatter", array), array, part, {bytes, bytes}, [&] {
    return ncclReduceScatter(data_of(array), data_of(part), static_cast<std::size_t>(part.count()),
                             type, ncclSum, lane_.handle().get(), lane_.stream());
  });
}

WorkPtr NcclCommunicator::all_gather(const Tensor& part, const Tensor& array) {
  check_parts("all_gather", array, part);
  const std::int64_t bytes = (size() - 1) * bytes_of(part);
  return submit(described("all_gather", array), part, array, {bytes, bytes}, [&] {
    return ncclAllGather(data_of(part), data_of(array), part.bytes(), ncclUint8,
                         lane_.handle().get(), lane_.stream());
  });
}

WorkPtr NcclCommunicator::broadcast(const Tensor& array, int root) {
  check_rank("broadcast", root);
  const std::int64_t sent = rank() == root ? (size() - 1) * bytes_of(array) : 0;
  const std::int64_t received = rank() == root ? 0 : bytes_of(array);
  const std::string what = fmt::format("{} from rank {}", described("broadcast", array), root);
  return submit(what, array, array, {sent, received}, [&] {
    return ncclBroadcast(data_of(array), data_of(array), array.bytes(), ncclUint8, root,
                         lane_.handle().get(), lane_.stream());
  });
}

WorkPtr NcclCommunicator::all_to_all(const Tensor& in, const Tensor& out) {
  if (in.bytes() != out.bytes() || in.count() % size() != 0)
    throw Error(
        "{}: all_to_all of {} elements into {} among {} ranks; both must be the same multiple of "
        "the ranks",
        name_, in.count(), out.count(), size());
  const std::size_t part = in.bytes() / static_cast<std::size_t>(size());
  const std::int64_t bytes = static_cast<std::int64_t>(part) * (size() - 1);
  return submit(described("all_to_all", in), in, out, {bytes, bytes}, [&] {
    ncclResult_t result = ncclGroupStart();
    const auto add = [&](ncclResult_t added) {
      if (result == ncclSuccess && added != ncclInProgress) result = added;
    };
    for (int r = 0; r < size(); ++r) {
      const std::size_t at = static_cast<std::size_t>(r) * part;
      add(ncclSend(in.data<std::uint8_t>() + at, part, ncclUint8, r, lane_.handle().get(),
                   lane_.stream()));
      add(ncclRecv(out.data<std::uint8_t>() + at, part, ncclUint8, r, lane_.handle().get(),
                   lane_.stream()));
    }
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
  });
}

WorkPtr NcclCommunicator::send(const Tensor& array, int to) {
  check_rank("send", to);
  return post(array, to, true);
}

WorkPtr NcclCommunicator::recv(const Tensor& array, int from) {
  check_rank("recv", from);
  return post(array, from, false);
}

WorkPtr NcclCommunicator::post(const Tensor& array, int peer, bool sends) {
  const std::lock_guard lock(mutex_);
  return guarded([&] {
    const std::string what = fmt::format("{} from rank {} to rank {}", described("message", array),
                                         sends ? rank() : peer, sends ? peer : rank());
    const OperationPtr message = messages_.post(what, array, peer, sends);
    if (peer != rank()) (sends ? traffic_.sent : traffic_.received) += bytes_of(array);
    return std::make_unique<NcclWork>(*this, message);
  });
}

void NcclCommunicator::barrier() {
  const Tensor nothing = device_.tensor({1}, MemoryKind::communication);
  device_.kernels().fill({.out = nothing});
  const WorkPtr work = sum("barrier", nothing, {});
  work->wait();
  device_.time(work->span().end);
}

std::unique_ptr<Communicator> NcclCommunicator::split(int colour, int key) {
  if (colour < 0) throw Error("{}: split: colour {} must be 0 or more", name_, colour);
  std::optional<Mark> end;
  {
    const std::lock_guard lock(mutex_);
    if (lane_.is_busy()) end = lane_.last();
  }
  if (end) device_.time(*end);
  const std::lock_guard lock(mutex_);
  return guarded([&]() -> std::unique_ptr<Communicator> {
    const std::string group = fmt::format("{}/{}.{}", name_, ++number_, colour);
    Handle handle = lane_.handle().split(colour, key, group, device_.clock(), timeout_s_);
    return std::make_unique<NcclCommunicator>(device_, store_, std::move(handle), timeout_s_);
  });
}

Traffic NcclCommunicator::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

void NcclCommunicator::check() {
  // Whoever has the lock looks as well, and may be waiting, for as long as the deadline.
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

void NcclCommunicator::look() {
  lane_.look();
  messages_.look();
}

ncclDataType_t NcclCommunicator::sum_type(const char* what, const Tensor& array) const {
  if (array.dtype() == DType::f32) return ncclFloat32;
  if (array.dtype() == DType::bf16) return ncclBfloat16;
  if (array.dtype() == DType::f16) return ncclFloat16;
  throw Error("{}: {} of {}; sums are of fp32, bf16 or fp16", name_, what, name_of(array.dtype()));
}

void NcclCommunicator::check_parts(const char* what, const Tensor& array,
                                   const Tensor& part) const {
  if (array.count() != part.count() * size() || array.dtype() != part.dtype())
    throw Error("{}: {}: {} parts of {} elements ({}) do not make an array of {} ({})", name_, what,
                size(), part.count(), name_of(part.dtype()), array.count(), name_of(array.dtype()));
}

void NcclCommunicator::check_rank(const char* what, int rank) const {
  if (rank < 0 || rank >= size())
    throw Error("{}: {}: no rank {} among {}", name_, what, rank, size());
}

}  // namespace ringside::peer
