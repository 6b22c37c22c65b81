// Ranks as threads that pretend to live on several hosts, for tests.
#pragma once

#include <string>
#include <vector>

#include "peer/comm/hosts/communicator.h"
#include "tests/peer/ranks.h"

namespace ringside::testing {

/// Runs `body` on a thread for each of `hosts`, whose communicators reach other hosts over Gloo on
/// the loopback interface. Returns what each rank threw, as errors_of_ranks_on() does.
inline std::vector<std::string> errors_of_hosts(const std::vector<int>& hosts, double timeout_s,
                                                const std::function<void(const Rank&)>& body,
                                                Algorithm algorithm = Algorithm::native,
                                                int present = all_ranks) {
  const auto make = [&](Device& device, Store& store, Group group, double timeout) {
    group.algorithm = algorithm;
    return peer::make_hosts_communicator(device, store, group,
                                         {hosts, InterHostBackend::gloo, "127.0.0.1", timeout});
  };
  return errors_of_ranks_on([] { return make_cpu_device(1); }, make, static_cast<int>(hosts.size()),
                            timeout_s, body, present);
}

/// Calls errors_of_hosts(), and expects that no rank throws.
inline void run_hosts(const std::vector<int>& hosts, const std::function<void(const Rank&)>& body,
                      Algorithm algorithm = Algorithm::native) {
  const auto errors = errors_of_hosts(hosts, 60, body, algorithm);
  for (std::size_t r = 0; r < hosts.size(); ++r)
    EXPECT_EQ(errors[r], "") << "rank " << r << " of " << hosts.size();
}

}  // namespace ringside::testing
