// Ranks as processes.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/arena.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "tests/peer/training.h"
#include "tests/support/forked_ranks.h"

namespace ringside {
namespace {

using namespace testing;

/// A store in memory that forked processes share.
class ForkedStore : public Store {
 public:
  ForkedStore()
      : entries_(static_cast<Entries*>(mmap(nullptr, sizeof(Entries), PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~ForkedStore() override { munmap(entries_, sizeof(Entries)); }

  void set(const std::string& key, const std::string& value) override {
    Entry& entry = (*entries_)[static_cast<std::size_t>(entries_->used++)];
    std::snprintf(entry.key, sizeof entry.key, "%s", key.c_str());
    std::snprintf(entry.value, sizeof entry.value, "%s", value.c_str());
    entry.ready = 1;
  }
  std::string get(const std::string& key, double) override {
    for (;; sched_yield())
      if (auto value = try_get(key)) return std::move(*value);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    for (Entry& entry : *entries_)
      if (entry.ready && key == entry.key) return entry.value;
    return {};
  }

 private:
  struct Entry {
    std::atomic<int> ready;
    char key[60], value[200'000];  // untouched pages take no memory
  };
  struct Entries : std::array<Entry, 64> {
    std::atomic<int> used;
  };
  Entries* entries_;
};

/// Runs `body` in one process for each rank. Returns the exit codes of the processes: 2 if `body`
/// returned false, otherwise as exits_of_forked() does.
std::vector<int> exits_of_processes(int size, double timeout_s,
                                    const std::function<bool(const Rank&)>& body,
                                    Algorithm algorithm = Algorithm::native) {
  ForkedStore store;
  return exits_of_forked(size, [&](int rank) {
    const auto device = make_cpu_device(1);
    const auto comm =
        peer::make_shm_communicator(*device, store, {"test", rank, size, algorithm}, timeout_s);
    return body({*device, store, rank, size, *comm}) ? 0 : 2;
  });
}

TEST(Processes, CollectivesAndMessagesCrossThem) {
  for (const int size : {2, 3, 4}) {
    const auto codes = exits_of_processes(size, 60, [](const Rank& r) {
      bool right = true;
      std::vector<Tensor> parts;  // all are kept, so that no memory is used again
      for (const std::int64_t n : {5, 1000, 100'000}) {
        // The file of the rank's memory grows by each tensor, which then lies beyond what the other
        // ranks have mapped. Untouched pages of the file take no memory.
        const Tensor& grown =
            parts.emplace_back(r.floats(std::int64_t{Arena::growth / sizeof(float)}));
        const SymmetricAddress first = parts.front().buffer()->address();
        const SymmetricAddress there = grown.buffer()->address();
        right = right && there.file == first.file &&
                there.offset >= first.offset + (parts.size() - 1) * Arena::growth;
        const auto piece = [&](std::int64_t index, std::int64_t count) {
          return grown.range(index * 1'000'000, count);
        };
        const Tensor array = piece(0, n * r.size), gathered = piece(1, n * r.size);
        const Tensor part = piece(2, n), in = piece(3, n);
        r.set(array, [&](std::int64_t i) { return static_cast<float>(r.rank + i % 100); });
        r.comm.reduce_scatter(array, part)->wait();
        r.comm.all_gather(part, gathered)->wait();
        r.comm.all_reduce(array)->wait();
        const float ranks = static_cast<float>(r.size * (r.size - 1) / 2);
        for (std::int64_t i = 0; i < n * r.size; ++i) {
          const float sum = ranks + static_cast<float>(r.size) * static_cast<float>(i % 100);
          right = right && array.data<float>()[i] == sum && gathered.data<float>()[i] == sum;
        }
        const WorkPtr sent = r.comm.send(array.range(0, n), (r.rank + 1) % r.size);
        r.comm.recv(in, (r.rank + r.size - 1) % r.size)->wait();
        sent->wait();
        right = right && in.data<float>()[n - 1] == array.data<float>()[n - 1];
      }
      r.comm.barrier();
      return right;
    });
    EXPECT_EQ(codes, std::vector<int>(static_cast<std::size_t>(size)));
  }
}

/// How a rank fails the others in the middle of a collective.
enum class End : std::uint8_t { killed, stopped, late };

/// The victim fails the others while many collectives are queued, so that all ranks wait for each
/// other within the steps of one. The others must name the victim, and not ranks that wait for it.
void expect_victim_is_named(Algorithm algorithm, End end) {
  constexpr int size = 3, victim = 1;
  const auto codes = exits_of_processes(
      size, 1,
      [end](const Rank& r) {
        const Tensor array = r.floats(1 << 18);
        std::vector<WorkPtr> works;
        const int calls = end == End::late && r.rank == victim ? 300 : 2000;
        for (int i = 0; i < calls; ++i) {
          r.comm.name_next("bucket 7");
          works.push_back(r.comm.all_reduce(array));
        }
        works.front()->wait();  // all ranks have come, and go on
        if (r.rank == victim) {
          r.store.set("victim", std::to_string(getpid()));
          if (end != End::late) raise(end == End::killed ? SIGKILL : SIGSTOP);
          r.store.get("over", 60);
          return true;
        }
        std::string error;
        try {
          for (const WorkPtr& work : works) work->wait();
        } catch (const Error& e) {
          error = e.what();
        }
        // Rank 2 may leave only when the records have been read.
        if (r.rank == 0) {
          const auto kept = nlohmann::json::parse(r.store.get("kept/collectives/test/0", 60));
          EXPECT_EQ(kept["ranks"].size(), 3u);
          for (const auto& rank : kept["ranks"]) {
            const auto& last = rank["collectives"].back();
            EXPECT_LE(rank["collectives"].size(), 256u);
            EXPECT_EQ(last["purpose"], "bucket 7");
            EXPECT_EQ(last["bytes"], 4 << 18);
            // A killed or stopped rank may also have ended a collective and not begun another.
            if (rank["rank"] != victim) {
              EXPECT_EQ(last["state"], "under way");
            }
          }
          if (end == End::stopped) kill(std::stoi(r.store.get("victim", 60)), SIGKILL);
          if (end == End::late) r.store.set("over", "");
        }
        const auto has = [&](const std::string& text) {
          return error.find(text) != std::string::npos;
        };
        const bool named = error.starts_with("test: rank 1 of 3 did not ");
        const bool placed =
            end != End::late || (has("rank 1 of 3: ended operation 300 (all_reduce of 1048576 "
                                     "bytes, bucket 7)") &&
                                 has("ranks 0, 2 of 3: in operation 301"));
        if (!named || !placed) std::fprintf(stderr, "rank %d: %s\n", r.rank, error.c_str());
        return named && placed && !::testing::Test::HasFailure();
      },
      algorithm);
  const int last = end == End::late ? 0 : 128 + SIGKILL;
  EXPECT_EQ(codes, (std::vector<int>{0, last, 0}))
      << name_of(algorithm) << ", " << static_cast<int>(end);
}

TEST(Processes, ARankThatIsKilledWithinACollectiveIsNamedByAllOthers) {
  for (const Algorithm algorithm : {Algorithm::native, Algorithm::ring})
    expect_victim_is_named(algorithm, End::killed);
}

TEST(Processes, ARankThatIsStoppedWithinACollectiveIsNamedByAllOthers) {
  expect_victim_is_named(Algorithm::halving_doubling, End::stopped);
}

TEST(Processes, ARankThatIsLateIsNamedByAllOthers) {
  expect_victim_is_named(Algorithm::native, End::late);
}

TEST(Processes, SchemesEndWithTheBitsOfTheSequentialSum) {
  const Training training{.world = 2};
  const auto codes = exits_of_processes(2, 60, [&](const Rank& r) {
    const auto expected = expected_parameters(training, Order::micro_batches_first);
    const RunPlan plan = training.plan();
    using peer::Shard;
    using Way = std::pair<Shard, bool>;
    for (const auto& [shard, in_place] :
         {Way{Shard::no_shard, true}, Way{Shard::full_shard, true}, Way{Shard::full_shard, false},
          Way{Shard::on_demand, true}, Way{Shard::on_demand, false}}) {
      Timeline timeline(r.device);
      const RankContext context{plan,     r.rank,  r.device, r.store,
                                timeline, nullptr, {},       links_among(r)};
      Model model = make_mlp(training.config, r.device);
      const auto scheme =
          shard == Shard::no_shard
              ? peer::make_ddp(context, {})
              : peer::make_fsdp(context, {.shard = shard, .read_in_place = in_place});
      scheme->attach(model);
      train(training, context, model, *scheme);
      if (!same_bits(parameters_of(*scheme), expected)) return false;
    }
    return true;
  });
  EXPECT_EQ(codes, std::vector<int>(2));
}

TEST(Processes, ARankThatIsKilledIsNamedByTheOthers) {
  const auto codes = exits_of_processes(3, 0.5, [](const Rank& r) {
    r.comm.barrier();
    if (r.rank == 1) raise(SIGKILL);
    try {
      r.comm.all_reduce(r.floats(10))->wait();
    } catch (const Error& e) {
      return std::string(e.what()).starts_with(
          "test: rank 1 of 3 did not begin operation 2 (all_reduce of 40 bytes) within 0.5 s; ");
    }
    return false;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 128 + SIGKILL, 0}));
}

TEST(Processes, AGroupKeepsNoFileOpen) {
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  run_ranks(1, [&](const Rank& r) {
    // The devices of both ranks outlive the group.
    const auto other = make_cpu_device(1);
    const Tensor here = r.floats(1);
    const Tensor there = other->tensor({1}, MemoryKind::communication);
    const auto before = open_files();
    const auto communicate = [&](Device& device, int rank, const Tensor& array) {
      const auto pair = peer::make_shm_communicator(device, r.store, {"pair", rank, 2}, 60);
      pair->all_reduce(array)->wait();
      return pair->share(1, MemoryKind::parameter, DType::f32);
    };
    std::thread thread([&] { communicate(*other, 1, there); });
    const Tensor shared = communicate(r.device, 0, here);
    thread.join();
    EXPECT_EQ(open_files(), before);
  });
}

}  // namespace
}  // namespace ringside
