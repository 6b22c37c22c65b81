// One rank of mpi_test.cc: a process that mpirun has started. Checks the bits of all collectives of
// ranks that pretend to live on several hosts against sums that it makes itself.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/comm/window.h"
#include "core/device/cpu/cpu_device.h"
#include "peer/comm/hosts/communicator.h"
#include "peer/comm/mpi/wire.h"
#include "tests/hosts/file_store.h"

namespace ringside::testing {
namespace {

constexpr int ranks = 4;

/// Values of which sums in another order have other bits.
float value_of(int rank, std::int64_t i) {
  constexpr float sizes[] = {0.0625F, 0.125F, 0.25F, 0.5F, 1.0F, 2.0F, 4.0F, 8.0F, 16.0F};
  const auto x = static_cast<float>((i * 37 + rank * 101) % 997);
  return (rank % 2 == 0 ? 1.0F : -0.75F) * (1.0F + x / 331.0F) * sizes[(i + rank) % 9];
}

/// Elements of one type, on this rank's device.
template <class T>
struct Values {
  Values(Device& device, std::int64_t count, DType dtype)
      : tensor(device.tensor({count}, MemoryKind::communication, dtype)) {}
  T& operator[](std::int64_t i) const { return reinterpret_cast<T*>(tensor.data<char>())[i]; }
  std::int64_t count() const { return tensor.count(); }
  Tensor tensor;
};

template <class T>
T rounded(float value);
template <>
float rounded(float value) {
  return value;
}
template <>
bf16 rounded(float value) {
  return to_bf16(value);
}
template <>
fp16 rounded(float value) {
  return to_fp16(value);
}
float widened(float value) { return value; }
float widened(bf16 value) { return to_float(value); }
float widened(fp16 value) { return to_float(value); }

template <class T>
T sum_at(std::int64_t i) {
  T sum = rounded<T>(value_of(0, i));
  for (int r = 1; r < ranks; ++r)
    sum = rounded<T>(widened(sum) + widened(rounded<T>(value_of(r, i))));
  return sum;
}

template <class T>
void expect(const char* what, const Values<T>& values, const auto& wanted) {
  for (std::int64_t i = 0; i < values.count(); ++i) {
    const T want = wanted(i);
    if (std::memcmp(&values[i], &want, sizeof(T)) != 0)
      throw Error("{} of {} elements of {} bytes: element {} is {}, not {}", what, values.count(),
                  sizeof(T), i, widened(values[i]), widened(want));
  }
}

template <class T>
void check(Device& device, Communicator& comm, std::int64_t n, DType dtype) {
  const int rank = comm.rank();
  const auto filled = [&](std::int64_t count) {
    Values<T> out(device, count, dtype);
    for (std::int64_t i = 0; i < count; ++i) out[i] = rounded<T>(value_of(rank, i));
    return out;
  };
  const Values<T> array = filled(n), parts = filled(n * ranks), part(device, n, dtype);
  const Values<T> all(device, n * ranks, dtype);
  comm.all_reduce(array.tensor)->wait();
  expect("all_reduce", array, [](std::int64_t i) { return sum_at<T>(i); });
  comm.reduce_scatter(parts.tensor, part.tensor)->wait();
  expect("reduce_scatter", part, [&](std::int64_t i) { return sum_at<T>(rank * n + i); });
  comm.all_gather(part.tensor, all.tensor)->wait();
  expect("all_gather", all, [](std::int64_t i) { return sum_at<T>(i); });
  comm.all_to_all(parts.tensor, all.tensor)->wait();
  expect("all_to_all", all, [&](std::int64_t i) {
    return rounded<T>(value_of(static_cast<int>(i / n), rank * n + i % n));
  });
  const Values<T> from_root = filled(n);
  comm.broadcast(from_root.tensor, 2)->wait();
  expect("broadcast", from_root, [](std::int64_t i) { return rounded<T>(value_of(2, i)); });
  const Values<T> sent = filled(n), received(device, n, dtype);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  const WorkPtr work = comm.send(sent.tensor, next);
  comm.recv(received.tensor, previous)->wait();
  work->wait();
  expect("a message", received, [&](std::int64_t i) { return rounded<T>(value_of(previous, i)); });
}

void check(Device& device, Communicator& comm) {
  for (const std::int64_t n : {0, 1, 17, 1001}) {
    check<float>(device, comm, n, DType::f32);
    check<bf16>(device, comm, n, DType::bf16);
    check<fp16>(device, comm, n, DType::f16);
  }
  check<float>(device, comm, 300'001, DType::f32);  // several segments
  comm.barrier();
}

/// The library's own sums, in an order of which only this is known: rounding to 8 bits or more.
template <class T>
void check_library(Device& device, Communicator& comm, std::int64_t n, DType dtype) {
  const Values<T> array(device, n, dtype);
  for (std::int64_t i = 0; i < n; ++i) array[i] = rounded<T>(value_of(comm.rank(), i));
  comm.all_reduce(array.tensor)->wait();
  for (std::int64_t i = 0; i < n; ++i) {
    float sum = 0, size = 0;
    for (int r = 0; r < ranks; ++r) {
      sum += widened(rounded<T>(value_of(r, i)));
      size += std::abs(value_of(r, i));
    }
    if (!(std::abs(widened(array[i]) - sum) <= size / 64))
      throw Error("the library's sum of {} elements of {} bytes: element {} is {}, not {}", n,
                  sizeof(T), i, widened(array[i]), sum);
  }
}

/// Ranks of different hosts that call different operations all get an error that names both, and
/// MPI can still be ended.
void check_disagreement(Device& device, Store& store, InterHostBackend library, int rank) {
  const peer::Hosts where{{0, 0, 1, 1}, library, {}, 60};
  const auto comm = peer::make_hosts_communicator(device, store, {"differs", rank, ranks}, where);
  const Tensor array = device.tensor({100'000}, MemoryKind::communication);
  std::string what;
  try {
    if (rank < 2)
      comm->all_reduce(array)->wait();
    else
      comm->broadcast(array, 1)->wait();
  } catch (const Error& e) {
    what = e.what();
  }
  for (const char* part : {"differs: operation 1 is all_reduce of 400000 bytes on rank ",
                           "and broadcast of 400000 bytes from rank 1 on rank "})
    if (what.find(part) == std::string::npos)
      throw Error("after different operations: '{}' lacks '{}'", what, part);
}

void run(InterHostBackend library, int rank, const char* folder) {
  FileStore store(folder);
  const auto device = make_cpu_device(1);
  for (const std::vector<int>& hosts : {std::vector{0, 0, 1, 1}, std::vector{0, 1, 2, 3}}) {
    const std::string name = fmt::format("hosts{}", fmt::join(hosts, ""));
    const peer::Hosts where{hosts, library, {}, 60};
    const auto comm = peer::make_hosts_communicator(*device, store, {name, rank, ranks}, where);
    check(*device, *comm);
    const auto pair = comm->split(rank % 2, rank);
    const Tensor one = device->tensor({1}, MemoryKind::communication);
    one.data<float>()[0] = static_cast<float>(rank);
    pair->all_reduce(one)->wait();
    if (one.data<float>()[0] != static_cast<float>(2 * (rank % 2) + 2))
      throw Error("the sum of a split is {}", one.data<float>()[0]);
  }
  const auto comm =
      peer::make_hosts_communicator(*device, store, {"library", rank, ranks, Algorithm::library},
                                    {{0, 0, 1, 1}, library, {}, 60});
  for (const std::int64_t n : {1, 17, 300'001}) {
    check_library<float>(*device, *comm, n, DType::f32);
    check_library<bf16>(*device, *comm, n, DType::bf16);
    check_library<fp16>(*device, *comm, n, DType::f16);
  }
  check_disagreement(*device, store, library, rank);
}

}  // namespace
}  // namespace ringside::testing

int main(int argc, char** argv) {
  using namespace ringside;
  const char* const rank =
      argc == 3
          ? std::getenv(std::strcmp(argv[1], "openmpi") == 0 ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK")
          : nullptr;
  if (!rank) {
    fmt::print(stderr, "this program is started by mpirun: mpi_ranks LIBRARY FOLDER\n");
    return 2;
  }
  try {
    const auto library = *value_named<InterHostBackend>(argv[1]);
    testing::run(library, std::atoi(rank), argv[2]);
    peer::end_mpi(library);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    return 1;
  }
}
