// Ranks as threads, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/comm/store.h"
#include "core/device/cpu/cpu_device.h"
#include "peer/comm/shm/communicator.h"
#include "tests/support/name_in_tests.h"

namespace ringside::testing {

/// The objects of one rank's thread.
struct Rank {
  Device& device;
  Store& store;
  int rank;
  int size;
  Communicator& comm;

  Tensor floats(std::int64_t count) const {
    return device.tensor({count}, MemoryKind::communication);
  }
  /// A tensor whose element i is f(i).
  Tensor floats(std::int64_t count, const std::function<float(std::int64_t)>& f) const {
    const Tensor out = floats(count);
    set(out, f);
    return out;
  }
  void set(const Tensor& array, const std::function<float(std::int64_t)>& f) const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < array.count(); ++i) values.push_back(f(i));
    device.write(array, std::as_bytes(std::span(values)));
  }
  std::vector<float> values(const Tensor& array) const {
    std::vector<float> out(static_cast<std::size_t>(array.count()));
    device.read(array, std::as_writable_bytes(std::span(out)));
    return out;
  }
};

/// More ranks than a test has.
inline constexpr int all_ranks = 1 << 20;

/// Runs `body` on `size` threads, one for each rank, but only for the first `present` ranks. A
/// rank's device is made by `make_device()`, its communicator by `make_communicator(device, store,
/// group, timeout)`. Returns the text of each rank's exception; "" for a rank that threw nothing.
template <class MakeDevice, class MakeCommunicator>
std::vector<std::string> errors_of_ranks_on(MakeDevice make_device,
                                            MakeCommunicator make_communicator, int size,
                                            double timeout_s,
                                            const std::function<void(const Rank&)>& body,
                                            int present = all_ranks) {
  MemoryStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < std::min(size, present); ++r)
    threads.emplace_back([&, r] {
      try {
        const auto device = make_device();
        const auto comm = make_communicator(*device, store, {"test", r, size}, timeout_s);
        body({*device, store, r, size, *comm});
      } catch (const std::exception& e) {
        errors[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

/// Calls errors_of_ranks_on() with CPU devices and communicators over shared memory.
inline std::vector<std::string> errors_of_ranks(int size, double timeout_s,
                                                const std::function<void(const Rank&)>& body,
                                                Algorithm algorithm = Algorithm::native,
                                                int present = all_ranks) {
  const auto make_communicator = [&](Device& device, Store& store, Group group, double timeout) {
    group.algorithm = algorithm;
    return peer::make_shm_communicator(device, store, group, timeout);
  };
  return errors_of_ranks_on([] { return make_cpu_device(1); }, make_communicator, size, timeout_s,
                            body, present);
}

/// Calls errors_of_ranks(), and expects that no rank throws.
inline void run_ranks(int size, const std::function<void(const Rank&)>& body,
                      Algorithm algorithm = Algorithm::native) {
  const auto errors = errors_of_ranks(size, 60, body, algorithm);
  for (int r = 0; r < size; ++r)
    EXPECT_EQ(errors[static_cast<std::size_t>(r)], "") << "rank " << r << " of " << size;
}

}  // namespace ringside::testing
