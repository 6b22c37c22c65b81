#include "peer/comm/mpi/module/wire.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "peer/comm/collective.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

/// The most bytes of one message of MPI.
constexpr std::size_t most_bytes = std::size_t{1} << 30;
/// A wait tests `spins` times, then yields between tests for `yield_s`, then naps between tests: a
/// message of some hundred KB should arrive before the first nap.
constexpr int spins = 20;
constexpr double yield_s = 2e-3;
constexpr long nap_ns = 50'000;
constexpr double ask_each_s = 0.02;
/// Tags up to this one are allowed by every library of MPI.
constexpr int most_tag = 32767;

/// `peer` is the rank that the call concerns; negative: all.
void check(int status, const char* call, int peer = -1) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(status, text, &length);
  std::string what(text);
  std::replace(what.begin(), what.end(), '\n', ' ');
  if (peer < 0) throw Error("MPI: {}: {}", call, what);
  throw Error("MPI: the connection to rank {} broke: {}: {}", peer, call, what);
}

void initialise() {
  int done = 0;
  check(MPI_Initialized(&done), "MPI_Initialized");
  int provided = MPI_THREAD_SINGLE;
  if (done)
    check(MPI_Query_thread(&provided), "MPI_Query_thread");
  else
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_MULTIPLE)
    throw Error(
        "MPI: this library cannot be used by several threads at once; install one that can");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

class MpiTransfer : public Transfer {
 public:
  /// A message.
  explicit MpiTransfer(int peer) : peer_(peer) {}
  /// A collective. MPI cannot cancel collectives: if the transfer is dropped before it is over, the
  /// request stays under way, and `stays` becomes true.
  explicit MpiTransfer(std::atomic<bool>& stays) : stays_(&stays) {}
  ~MpiTransfer() override {
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      if (stays_) {
        *stays_ = true;
        continue;
      }
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }

  /// Calls start(first byte, bytes, request) for each of the parts that make up the transfer.
  void start(std::size_t bytes, const auto& start) {
    for (std::size_t done = 0; done < bytes; done += most_bytes) {
      requests_.push_back(MPI_REQUEST_NULL);
      check(start(done, static_cast<int>(std::min(most_bytes, bytes - done)), &requests_.back()),
            peer_ < 0 ? "an all-reduce cannot begin" : "a message cannot begin", peer_);
    }
  }

  bool wait(const std::function<bool()>& give_up) override {
    double asked = 0, begin = 0;
    for (int round = 0; !over(); ++round) {
      if (round < spins) continue;
      const double now = seconds_now();
      if (round == spins) begin = now;
      if (now - begin < yield_s) {
        sched_yield();
        continue;
      }
      if (now - asked > ask_each_s) {
        if (asked > 0 && give_up()) return false;
        asked = now;
      }
      const timespec nap{0, nap_ns};
      nanosleep(&nap, nullptr);
    }
    return true;
  }

 private:
  bool over() {
    for (MPI_Request& request : requests_) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", peer_);
      if (!done) return false;
    }
    return true;
  }

  int peer_ = -1;  // negative: all
  std::atomic<bool>* stays_ = nullptr;
  std::vector<MPI_Request> requests_;
};

/// The numbers of the group's ranks in MPI_COMM_WORLD.
std::vector<int> numbers_of(const MpiRequest& request) {
  const auto& [store, group, timeout_s] = request;
  const auto key = [&](int rank) { return fmt::format("mpi/{}/{}", request.group.name, rank); };
  int own = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &own), "MPI_Comm_rank");
  store.set(key(group.rank), std::to_string(own));
  const double end = seconds_now() + timeout_s;
  std::vector<int> numbers, missing;
  for (int r = 0; r < group.size; ++r) {
    try {
      numbers.push_back(std::stoi(store.get(key(r), std::max(0.01, end - seconds_now()))));
    } catch (const Error&) {
      missing.push_back(r);
    }
  }
  if (missing.empty()) {
    if (std::set<int>(numbers.begin(), numbers.end()).size() == numbers.size()) return numbers;
    throw Error(
        "{}: its ranks are no processes of one launcher of MPI; start them with mpirun.openmpi, or "
        "with mpiexec.mpich",
        request.group.name);
  }
  const auto is_missing = [&](int r) {
    return std::find(missing.begin(), missing.end(), r) != missing.end();
  };
  throw Error("{}", did_not_join(group.name, list_ranks(group.size, is_missing), timeout_s));
}

/// An MPI_User_function.
template <DType dtype>
void add_halves(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* added = static_cast<const std::byte*>(in);
  auto* sum = static_cast<std::byte*>(in_out);
  const std::byte* const sources[] = {sum, added};
  std::byte* const targets[] = {sum};
  sum_in_order(dtype, sources, targets, static_cast<std::size_t>(*count));
}

}  // namespace

MpiWire::MpiWire(const MpiRequest& request) {
  initialise();
  const std::vector<int> numbers = numbers_of(request);
  MPI_Group world, members;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check(MPI_Group_incl(world, static_cast<int>(numbers.size()), numbers.data(), &members),
        "MPI_Group_incl");
  // Groups that come together at the same time have different tags, or at least other members.
  const auto tag =
      static_cast<int>(std::hash<std::string>{}(request.group.name) % (most_tag + std::size_t{1}));
  const int status = MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &comm_);
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  check(status, "MPI_Comm_create_group");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

MpiWire::~MpiWire() {
  if (sum_stays_) return;  // and needs its operation and communicator
  for (HalfSum* one : {&bf16_, &f16_}) {
    if (one->op != MPI_OP_NULL) MPI_Op_free(&one->op);
    if (one->type != MPI_DATATYPE_NULL) MPI_Type_free(&one->type);
  }
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

TransferPtr MpiWire::send(int peer, Lane lane, std::span<const std::byte> bytes) {
  auto transfer = std::make_unique<MpiTransfer>(peer);
  transfer->start(bytes.size(), [&](std::size_t from, int count, MPI_Request* request) {
    return MPI_Isend(bytes.data() + from, count, MPI_BYTE, peer, static_cast<int>(lane), comm_,
                     request);
  });
  return transfer;
}

TransferPtr MpiWire::receive(int peer, Lane lane, std::span<std::byte> bytes) {
  auto transfer = std::make_unique<MpiTransfer>(peer);
  transfer->start(bytes.size(), [&](std::size_t from, int count, MPI_Request* request) {
    return MPI_Irecv(bytes.data() + from, count, MPI_BYTE, peer, static_cast<int>(lane), comm_,
                     request);
  });
  return transfer;
}

MpiWire::HalfSum& MpiWire::half_sum(DType dtype) {
  HalfSum& out = dtype == DType::bf16 ? bf16_ : f16_;
  if (out.op != MPI_OP_NULL) return out;
  check(MPI_Type_contiguous(static_cast<int>(size_of(dtype)), MPI_BYTE, &out.type),
        "MPI_Type_contiguous");
  check(MPI_Type_commit(&out.type), "MPI_Type_commit");
  const auto add = dtype == DType::bf16 ? add_halves<DType::bf16> : add_halves<DType::f16>;
  check(MPI_Op_create(add, 1, &out.op), "MPI_Op_create");
  return out;
}

TransferPtr MpiWire::all_reduce(DType dtype, std::span<std::byte> array) {
  const HalfSum sum = dtype == DType::f32 ? HalfSum{MPI_FLOAT, MPI_SUM} : half_sum(dtype);
  auto transfer = std::make_unique<MpiTransfer>(sum_stays_);
  transfer->start(array.size(), [&](std::size_t from, int bytes, MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, array.data() + from,
                          bytes / static_cast<int>(size_of(dtype)), sum.type, sum.op, comm_,
                          request);
  });
  return transfer;
}

namespace {

void end() {
  int begun = 0, ended = 0;
  if (MPI_Initialized(&begun) != MPI_SUCCESS || !begun) return;
  if (MPI_Finalized(&ended) != MPI_SUCCESS || ended) return;
  MPI_Finalize();
}

}  // namespace
}  // namespace ringside::peer

extern "C" void ringside_module(ringside::ModuleExports* exports) {
  using namespace ringside::peer;
  static const MpiModule functions{.begin = initialise,
                                   .make = [](const MpiRequest& request) -> std::unique_ptr<Wire> {
                                     return std::make_unique<MpiWire>(request);
                                   },
                                   .end = end};
  exports->functions = &functions;
  exports->stamp = ringside::module_stamp;
}
