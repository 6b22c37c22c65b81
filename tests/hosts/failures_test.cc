// Errors of ranks on several hosts, over Gloo, when others do not do their part.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <latch>
#include <sstream>
#include <thread>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "peer/comm/gloo/wire.h"
#include "peer/comm/hosts/communicator.h"
#include "tests/hosts/file_store.h"
#include "tests/hosts/ranks.h"
#include "tests/peer/failures_suite.h"
#include "tests/support/complaint.h"
#include "tests/support/forked_ranks.h"

namespace ringside::testing {
namespace {

using ::testing::HasSubstr;

FailingRanks ranks_on_hosts(const std::string& name, int (*host_of)(int rank, int size)) {
  FailingRanks out{name, [=](const RunOfRanks& ranks) {
                     std::vector<int> hosts;
                     for (int r = 0; r < ranks.size; ++r) hosts.push_back(host_of(r, ranks.size));
                     return end_in_real_time([&] {
                       return errors_of_hosts(hosts, ranks.timeout_s, ranks.body, Algorithm::native,
                                              ranks.present);
                     });
                   }};
  out.soon = 1;
  out.sees_all = false;
  return out;
}
const FailingRanks on_two_hosts =
    ranks_on_hosts("two", [](int rank, int size) { return rank * 2 / size; });
const FailingRanks on_a_host_each = ranks_on_hosts("one_each", [](int rank, int) { return rank; });

INSTANTIATE_TEST_SUITE_P(Hosts, Failures, ::testing::Values(on_two_hosts, on_a_host_each),
                         name_of_kind);
INSTANTIATE_TEST_SUITE_P(Hosts, LateRanks, ::testing::Values(on_two_hosts), name_of_kind);
// A rank of another host that has left is noticed after seconds only.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WatchedMessages);

constexpr double soon = 1;

TEST(HostsFail, WhenOneIsLateForALibrary) {
  // Rank 0 only knows that rank 1 has come, and waits within the library.
  std::latch failed(2);
  const auto body = [&](const Rank& r) {
    if (r.rank == 2) return failed.wait();
    try {
      r.comm.all_reduce(r.floats(1 << 20))->wait();
      ADD_FAILURE() << "rank 2 never came";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("rank 2 of 3 says nothing"));
    }
    failed.count_down();
    EXPECT_THROW(r.comm.barrier(), Error);
  };
  EXPECT_EQ(errors_of_hosts({0, 1, 2}, soon, body, Algorithm::library),
            std::vector<std::string>(3));
}

/// Makes processes of ranks on hosts of their own, kills the last one before its second operation,
/// and expects that all others say so at once.
void kill_the_last(int ranks, Algorithm algorithm) {
  const TemporaryFolder folder;
  const int last = ranks - 1;
  std::vector<int> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(r);
  const auto codes = exits_of_forked(ranks, [&](int rank) -> int {
    FileStore store(folder.path());
    const auto device = make_cpu_device(1);
    const auto comm =
        peer::make_hosts_communicator(*device, store, {"test", rank, ranks, algorithm},
                                      {hosts, InterHostBackend::gloo, "127.0.0.1", 60});
    comm->barrier();
    if (rank == last) {  // the others have left the barrier too by the time
      for (int r = 0; r < last; ++r) store.get("left/" + std::to_string(r), 60);
      raise(SIGKILL);
    }
    store.set("left/" + std::to_string(rank), "");
    const Tensor array = device->tensor({1000}, MemoryKind::communication);
    const double begin = seconds_now();
    const std::string error = complaint([&] { comm->all_reduce(array)->wait(); });
    const bool named = error.starts_with(fmt::format(
                           "test: rank {} of {} ended before operation 2 ", last, ranks)) &&
                       seconds_now() - begin < 30;
    if (!named) std::fprintf(stderr, "rank %d: %s\n", rank, error.c_str());
    _exit(named ? 0 : 2);  // at once, because others have closed their connections
  });
  std::vector<int> wanted(static_cast<std::size_t>(last), 0);
  wanted.push_back(128 + SIGKILL);
  EXPECT_EQ(codes, wanted);
}

TEST(HostsFail, AtOnceWhenAProcessIsKilled) { kill_the_last(2, Algorithm::native); }

// Rank 0 only knows that rank 1 has come, and is in Gloo's all-reduce by then.
TEST(HostsFail, AtOnceWhenAProcessIsKilledWithinALibrary) { kill_the_last(3, Algorithm::library); }

/// A store that gives nothing until it is opened.
class ClosedStore : public FileStore {
 public:
  using FileStore::FileStore;
  void open() { opened_.count_down(); }
  std::string get(const std::string& key, double timeout_s) override {
    opened_.wait();
    return FileStore::get(key, timeout_s);
  }

 private:
  std::latch opened_{1};
};

/// Connects to every port that a rank of two has published for the other.
std::vector<int> connect_as_a_stranger(const std::string& published, int other) {
  std::istringstream list(published);
  std::vector<std::string> words(std::istream_iterator<std::string>(list), {});
  std::vector<int> out;
  for (const std::size_t way : {0, 1}) {
    const std::string& hex = words.at(2 * way + static_cast<std::size_t>(other));
    sockaddr_in address{};
    for (std::size_t i = 0; i < sizeof address; ++i)
      reinterpret_cast<unsigned char*>(&address)[i] =
          static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    out.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(out.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  return out;
}

/// The errors of two ranks if a stranger connects before them.
std::vector<std::string> errors_beside_a_stranger(const std::function<void(int socket)>& act) {
  const TemporaryFolder folder;
  ClosedStore store(folder.path());
  std::vector<std::string> errors(2);
  std::vector<std::jthread> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      try {
        peer::make_gloo_wire(store, {.name = "group", .rank = r, .size = 2}, "127.0.0.1", 1);
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(r)] = error.what();
      }
    });
  std::vector<int> strangers;
  for (int r = 0; r < 2; ++r)
    for (const int socket : connect_as_a_stranger(
             store.FileStore::get("gloo/group/" + std::to_string(r), 60), 1 - r)) {
      act(socket);
      strangers.push_back(socket);
    }
  store.open();
  ranks.clear();
  for (const int socket : strangers) close(socket);
  return errors;
}

TEST(HostsFail, WhenAStrangerTakesThePlaceOfARankAndSaySo) {
  const std::function<void(int)> acts[] = {
      [](int) {}, [](int socket) { shutdown(socket, SHUT_RDWR); },
      [](int socket) {
        const std::string nonsense(200, '\1');
        EXPECT_EQ(send(socket, nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 200);
      }};
  for (const auto& act : acts)
    for (const std::string& error : errors_beside_a_stranger(act))
      EXPECT_THAT(error, HasSubstr("another process has connected in its place"));
}

}  // namespace
}  // namespace ringside::testing
