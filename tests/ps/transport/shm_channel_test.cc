// Behaviour of channels through shared memory besides that of every transport.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "ps/protocol/archive.h"
#include "ps/transport/shm/channels.h"
#include "ps/transport/shm/transport.h"
#include "tests/ps/frames.h"
#include "tests/ps/host.h"
#include "tests/support/complaint.h"
#include "tests/support/staged_device.h"

namespace ringside::ps {
namespace {

using testing::complaint;
using testing::counting;
using testing::same;

using testing::patience_s;

/// A server and a worker as ranks of their own, in one process.
struct Pair {
  explicit Pair(double timeout_s = patience_s)
      : options{.max_frame_bytes = 1 << 20, .timeout_s = timeout_s},
        server(open_server(*server_device, board, 0, -1, std::make_shared<InProcessQueues>(),
                           options)),
        worker(connect_worker(*worker_device, board, 0, -1, std::make_shared<InProcessQueues>(),
                              options, timeline)) {}

  /// What the server takes, after it was told where the values lie.
  std::optional<Received> sent_to_server(Message message) {
    worker->send(0, std::move(message));
    return server->receive(patience_s);
  }
  Ring& to_server() const { return board->lane(0, 0).to_server; }
  std::int64_t held_by_worker() const {
    return worker_device->ledger().current()[MemoryKind::gradient];
  }

  std::unique_ptr<Device> server_device = make_cpu_device(1), worker_device = make_cpu_device(1);
  Timeline timeline{*worker_device};
  TransportOptions options;
  std::shared_ptr<SharedRegion> board = SharedRegion::create(1, 1);
  std::unique_ptr<Channel> server, worker;
};

Message pushed(std::vector<Tensor> frames = {}, std::int64_t step = 0) {
  return {{.token = 42, .kind = Kind::push_pull, .worker = 0, .step = step}, std::move(frames)};
}

TEST(ShmChannel, FramesAreViewsOfTheSendersMemory) {
  Pair pair;
  const Tensor frame = counting(*pair.worker_device, {1 << 16});
  const auto asked = pair.sent_to_server(pushed({frame.range(16, 1000)}));
  ASSERT_TRUE(asked);
  const Tensor& seen = asked->message.frames.at(0);
  EXPECT_NE(seen.data<float>(), frame.data<float>() + 16) << "a mapping of its own";
  frame.data<float>()[16 + 999] = 7;
  EXPECT_EQ(seen.data<float>()[999], 7);
  EXPECT_EQ(pair.server_device->ledger().current().total(), 0);
}

TEST(ShmChannel, TheSenderKeepsAFrameUntilItsLastViewIsGone) {
  Pair pair;
  auto asked = pair.sent_to_server(
      pushed({counting(*pair.worker_device, {1000}), counting(*pair.worker_device, {2000})}));
  ASSERT_TRUE(asked);
  std::optional<Tensor> view = asked->message.frames.at(1).range(5, 5);
  asked.reset();
  EXPECT_FALSE(pair.worker->receive(0));
  EXPECT_EQ(pair.held_by_worker(), 12000) << "a view of one frame keeps the message's frames";
  view.reset();
  EXPECT_FALSE(pair.worker->receive(0));
  EXPECT_EQ(pair.held_by_worker(), 0);
}

TEST(ShmChannel, ViewsOutliveBothChannels) {
  Pair pair;
  auto asked = pair.sent_to_server(pushed({counting(*pair.worker_device, {100})}));
  ASSERT_TRUE(asked);
  pair.server.reset();
  pair.worker.reset();
  pair.board.reset();
  EXPECT_TRUE(same(*pair.server_device, asked->message.frames.at(0), *pair.worker_device,
                   counting(*pair.worker_device, {100})));
}

TEST(ShmChannel, AReceiverMayHoldMoreMessagesThanThereAreReleaseWords) {
  Pair pair(1);
  constexpr int messages = 3 * Ring::releases;
  std::vector<Message> held;
  for (int i = 0; i < messages; ++i) {
    auto asked =
        pair.sent_to_server(pushed({counting(*pair.worker_device, {8}, DType::f32, i)}, i));
    ASSERT_TRUE(asked);
    held.push_back(std::move(asked->message));
  }
  EXPECT_LE(pair.held_by_worker(), Ring::releases * 32);
  EXPECT_GE(pair.server_device->ledger().current()[MemoryKind::communication],
            (messages - static_cast<int>(Ring::releases)) * 32)
      << "what is too much is copied";
  for (int i = 0; i < messages; ++i)
    ASSERT_TRUE(same(*pair.server_device, held[static_cast<std::size_t>(i)].frames.at(0),
                     *pair.worker_device, counting(*pair.worker_device, {8}, DType::f32, i)))
        << i;
  held.clear();
  EXPECT_FALSE(pair.worker->receive(0));
  EXPECT_EQ(pair.held_by_worker(), 0);
}

TEST(ShmChannel, AWorkerOfAnotherVersionEndsTheRunOnBothSides) {
  Pair pair;
  auto header = encode(pushed());
  constexpr std::size_t version_at = 4;
  header.at(version_at) = std::byte{9};
  EXPECT_TRUE(pair.to_server().put({0, false, {}, header}));
  EXPECT_EQ(complaint([&] { pair.server->receive(patience_s); }),
            fmt::format("server 0 refuses worker 0: message header: version is 9, but this program "
                        "has {}; start all ranks with the same program",
                        protocol_version));
  const auto told = pair.worker->receive(patience_s);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->message.header.kind, Kind::error);
}

TEST(ShmChannel, FramesOutsideTheSymmetricHeapAreCopied) {
  Pair pair;
  const Tensor frame = pair.worker_device->tensor({100}, MemoryKind::activation);
  pair.worker_device->kernels().fill({.out = frame, .value = 3});
  auto asked = pair.sent_to_server(pushed({frame}));
  ASSERT_TRUE(asked);
  EXPECT_TRUE(same(*pair.server_device, asked->message.frames.at(0), *pair.worker_device, frame));
  EXPECT_EQ(pair.worker_device->ledger().current()[MemoryKind::communication], 400);
  // A server may send back what it received, which is a view and has no address of its own.
  pair.server->send(0, std::move(asked->message));
  const auto answer = pair.worker->receive(patience_s);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(same(*pair.worker_device, answer->message.frames.at(0), *pair.worker_device, frame));
  EXPECT_EQ(pair.worker_device->ledger().current()[MemoryKind::communication], 0);
}

TEST(ShmChannel, OnlyTheSendersOwnMemoryIsRead) {
  Pair pair;
  const Tensor frame = counting(*pair.worker_device, {100});
  ASSERT_TRUE(pair.sent_to_server(pushed()));
  shm::PeerMemory memory;
  const auto answer_to = [&](const auto& change) {
    shm::Address address = memory.publish(frame);
    change(address);
    EXPECT_TRUE(pair.to_server().put({0, false, {address}, encode(pushed({frame}))}));
    EXPECT_FALSE(pair.server->receive(0));
    const auto answer = pair.worker->receive(0);
    if (!answer || answer->message.header.kind != Kind::error) return std::string("none");
    return answer->message.header.text;
  };
  const auto names = [](const std::string& text, const char* what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  names(answer_to([](auto& a) { a.offset = std::size_t{1} << 40; }),
        "a tensor in it has 400 bytes");
  names(answer_to([](auto& a) { a.offset = ~std::uint64_t{0} - 3; }), "a tensor in it has 400");
  names(answer_to([](auto& a) { a.offset += 2; }), "not the sender's");
  names(answer_to([](auto& a) { a.process = 1; }), "not the sender's");
  names(answer_to([](auto& a) { a.identity += 1; }), "is gone");
  names(answer_to([](auto& a) { a.file = 9999; }), "cannot open");
  names(answer_to([](auto& a) { a.bytes = 404; }), "but the header says 400");
  EXPECT_TRUE(pair.sent_to_server(pushed({frame}))) << "the connection goes on";
}

/// A rank's memory is a file that grows while peers have mapped it.
TEST(ShmChannel, MemoryThatHasGrownIsReadToo) {
  const auto device = make_cpu_device(1);
  shm::PeerMemory own, peer;
  const Tensor before = counting(*device, {100});
  const shm::Address first = own.publish(before);
  const std::shared_ptr<std::byte> old = peer.find(first);
  const Tensor apart = device->tensor({3, 1 << 24}, MemoryKind::gradient);  // 192 MB, not touched
  const Tensor after = counting(*device, {100});
  const shm::Address second = own.publish(after);
  EXPECT_EQ(second.file, first.file);
  ASSERT_GT(second.offset, std::size_t{192} << 20);
  const auto reads = [](const std::shared_ptr<std::byte>& from, const Tensor& tensor) {
    return std::memcmp(from.get(), tensor.data<float>(), tensor.bytes()) == 0;
  };
  EXPECT_TRUE(reads(peer.find(second), after));
  EXPECT_TRUE(reads(peer.find(first), before));
  before.data<float>()[7] = 1234;
  EXPECT_TRUE(reads(old, before)) << "the mapping of then shows the same memory";
}

/// A process that reads beyond the end of a mapped file is killed by SIGBUS.
TEST(ShmChannel, TheMemoryThatAPeerReadsCannotBeCut) {
  Pair pair;
  const Tensor frame = counting(*pair.worker_device, {100});
  const int file = frame.buffer()->address().file;
  EXPECT_EQ(ftruncate(file, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(shm::File::create(4096, "sealed").number(), 0), -1);

  const int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(unsealed, 4096), 0);
  const Message message = pushed({frame});
  const shm::Address address{getpid(), unsealed, shm::File::identity_of(unsealed), 0, 400};
  EXPECT_TRUE(pair.to_server().put({0, false, {address}, encode(message)}));
  EXPECT_FALSE(pair.server->receive(0));
  const auto answer = pair.worker->receive(patience_s);
  close(unsealed);
  ASSERT_TRUE(answer);
  EXPECT_NE(answer->message.header.text.find("could be cut"), std::string::npos)
      << answer->message.header.text;
}

TEST(ShmChannel, TooLargeFramesAreRefused) {
  Pair pair;
  pair.worker->send(0, pushed({counting(*pair.worker_device, {(1 << 18) + 1})}));
  EXPECT_FALSE(pair.server->receive(0));
  const auto answer = pair.worker->receive(patience_s);
  ASSERT_TRUE(answer);
  EXPECT_NE(answer->message.header.text.find("at most 1048576 are allowed"), std::string::npos);
}

TEST(ShmChannel, AnyBytesInARingAreRefusedOrAMessage) {
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    Pair pair;
    for (int i = 0; i < 3; ++i) pair.worker->try_send(0, pushed({}, i));
    // Overwrites some words of the ring, but leaves its size and what follows it alone.
    auto* words = reinterpret_cast<std::uint32_t*>(&pair.to_server());
    for (int i = 0; i < 4; ++i) {
      const std::size_t at =
          random() % 2 == 0 ? random() % 64 : random() % (sizeof(Ring) / sizeof(std::uint32_t));
      words[at] = random() % 2 == 0 ? random() : random() % 200;
    }
    for (int i = 0; i < 4; ++i)
      complaint([&] { pair.server->receive(0); });  // whose first header is garbage ends the run
    while (const auto answer = pair.worker->receive(0))
      refused += answer->message.header.kind == Kind::error;
  }
  EXPECT_GT(refused, 0);
}

TEST(ShmChannel, WhoHasEndedIsNamed) {
  Pair pair;
  ASSERT_TRUE(pair.sent_to_server(pushed()));
  {
    Pair other;
    ASSERT_TRUE(other.sent_to_server(pushed()));
    other.worker.reset();
    EXPECT_EQ(complaint([&] { other.server->send(0, pushed()); }),
              "server 0: worker 0 has ended before it received the reply to its push_pull");
    EXPECT_FALSE(other.server->try_send(0, pushed()));
  }
  Message last = pushed();
  last.header.kind = Kind::error;
  last.header.text = "the disk is full";
  EXPECT_TRUE(pair.server->try_send(0, std::move(last)));
  pair.server.reset();
  EXPECT_EQ(complaint([&] { pair.worker->send(0, pushed()); }), "server 0: the disk is full")
      << "its last words come first";
  EXPECT_EQ(complaint([&] { pair.worker->send(0, pushed()); }),
            "server 0 has ended before it received a push_pull message");
  EXPECT_EQ(complaint([&] { pair.worker->receive(patience_s); }),
            "server 0 has ended, and this worker still waits for messages");
  EXPECT_FALSE(pair.worker->try_send(0, pushed()));
}

TEST(ShmChannel, AKilledWorkerIsNamed) {
  const std::shared_ptr<SharedRegion> board = SharedRegion::create(1, 1);
  const pid_t child = fork();
  if (child == 0) {
    const auto device = make_cpu_device(1);
    Timeline timeline(*device);
    const auto own = SharedRegion::join(board->address(), 1, 1);
    const auto channel =
        connect_worker(*device, own, 0, -1, std::make_shared<InProcessQueues>(), {}, timeline);
    channel->send(0, pushed({counting(*device, {1000})}));
    for (;;) pause();
  }
  const auto device = make_cpu_device(1);
  const auto server = open_server(*device, board, 0, -1, std::make_shared<InProcessQueues>(),
                                  {.max_frame_bytes = 4000, .timeout_s = patience_s});
  const auto asked = server->receive(patience_s);
  kill(child, SIGKILL);
  siginfo_t ended;
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);  // a zombie has ended too
  EXPECT_EQ(complaint([&] { server->send(0, pushed()); }),
            "server 0: worker 0 has ended before it received the reply to its push_pull");
  ASSERT_TRUE(asked);
  EXPECT_TRUE(same(*device, asked->message.frames.at(0), *device, counting(*device, {1000})))
      << "its memory stays mapped";
  waitpid(child, nullptr, 0);
}

TEST(ShmChannel, LeavesNoFileOpen) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open_files();
  {
    Pair pair;
    ASSERT_TRUE(pair.sent_to_server(pushed({counting(*pair.worker_device, {10})})));
  }
  EXPECT_EQ(open_files(), before);
}

TEST(ShmTransport, RefusesADeviceWhoseMemoryIsItsOwn) {
  testing::StagedDevice device(1);
  MemoryStore store;
  Timeline timeline(device);
  RunPlan plan;
  plan.servers = 1;
  plan.ranks = {{0, 0, 0}};
  EXPECT_EQ(
      complaint([&] {
        shm_transport()->listen({plan, 0, device, store, timeline}, {});
      }),
      "transport shm: other processes cannot map the memory of this rank's device; choose ipc "
      "or tcp");
}

}  // namespace
}  // namespace ringside::ps
