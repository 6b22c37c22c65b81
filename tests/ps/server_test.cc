#include "ps/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "core/base/random.h"
#include "core/device/cpu/cpu_device.h"
#include "core/parameter_map.h"
#include "tests/support/staged_device.h"

namespace ringside::ps {
namespace {

constexpr std::uint64_t token = 77;

/// Parameters and nothing else.
class Range : public Unit {
 public:
  Range(std::int64_t count, Device& device) : Unit("range", device) {
    declare().add("values", {count}, {Init::Kind::normal, 1});
  }
  Tensor forward(const Tensor& input, const Pass&) override { return input; }
  Tensor backward(const Tensor& grad_output) override { return grad_output; }
};

float value(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::bf16 ? to_float(t.data<bf16>()[i]) : t.data<float>()[i];
}
void set(const Tensor& t, std::int64_t i, float value) {
  if (t.dtype() == DType::bf16)
    t.data<bf16>()[i] = to_bf16(value);
  else
    t.data<float>()[i] = value;
}

std::vector<float> values_of(const Tensor& t) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < t.count(); ++i) values.push_back(value(t, i));
  return values;
}

/// Says how often somebody wanted to know when a mark was reached.
class AskedDevice : public testing::StagedDevice {
 public:
  AskedDevice() : StagedDevice(1, 0) {}
  double time(const Mark& mark) override {
    ++asked;
    return StagedDevice::time(mark);
  }
  int asked = 0;
};

/// Two units, three chunks: [0, 32) and [32, 50) of the first, [50, 60) of the second.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    model_.units.push_back(std::make_unique<Range>(50, *device_));
    model_.units.push_back(std::make_unique<Range>(10, *device_));
    chunks_ = partition({50, 10}, 1, 128);
  }

  ServerConfig config(int workers) const {
    ServerConfig config{.workers = workers,
                        .token = token,
                        .initial_values = drawn_values(5),
                        .dtype = dtype_,
                        .steps = 10};
    config.optimizer.lr = 0.1;
    return config;
  }
  Server make_server(int workers) { return {model_, chunks_, *device_, config(workers)}; }

  /// Magnitudes differ by far: another order of the sum has other bits.
  Tensor gradient(int worker, const Chunk& chunk, std::int64_t step) {
    Tensor out = device_->tensor({chunk.count}, MemoryKind::gradient, dtype_);
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      const auto position =
          static_cast<std::uint64_t>((step * 8 + worker) * 1000 + chunk.begin + i);
      const double scale = worker == 1 ? 1e3 : 1e-3;
      set(out, i, static_cast<float>(scale * random_normal(3, Stream::sampler, position)));
    }
    return out;
  }

  Message about(Kind kind, int worker, const Chunk& chunk, std::int64_t step) {
    Message message;
    message.header = {.token = token,
                      .kind = kind,
                      .worker = worker,
                      .step = step,
                      .begin = chunk.begin,
                      .count = chunk.count};
    return message;
  }
  Message summand(int worker, std::int64_t sum, std::vector<double> values) {
    Message message;
    message.header = {.token = token, .kind = Kind::sum, .worker = worker, .step = sum};
    message.frames.push_back(device_->tensor({static_cast<std::int64_t>(values.size())},
                                             MemoryKind::communication, DType::f64));
    device_->write(message.frames[0], std::as_bytes(std::span(values)));
    return message;
  }
  static std::vector<double> doubles_of(const Message& message) {
    const auto values = message.frames.at(0).span<double>();
    return {values.begin(), values.end()};
  }
  Message push(int worker, std::size_t chunk, std::int64_t step, Kind kind = Kind::push_pull) {
    Message message = about(kind, worker, chunks_[chunk], step);
    message.frames.push_back(gradient(worker, chunks_[chunk], step));
    return message;
  }
  Message pull(int worker, std::size_t chunk, std::int64_t steps) {
    return about(Kind::pull, worker, chunks_[chunk], steps);
  }

  /// What one process would make of it: sums in rank order, one optimizer for the whole model.
  std::vector<std::vector<float>> sequential(int workers, std::int64_t steps) {
    Tensor all = device_->tensor({60}, MemoryKind::parameter, dtype_);
    for (std::size_t u = 0; u < 2; ++u) {
      const std::int64_t first = model_.first_parameter(u);
      initialise(*model_.units[u], first, 5, 0,
                 all.range(first, model_.units[u]->layout().count()));
    }
    const auto optimizer =
        make_optimizer(config(1).optimizer, {10, workers}, *device_, all, parameter_map(model_));
    Tensor sum = device_->tensor({60}, MemoryKind::gradient, dtype_);
    for (std::int64_t step = 0; step < steps; ++step) {
      for (const Chunk& chunk : chunks_)
        for (int w = 0; w < workers; ++w) {
          const Tensor part = gradient(w, chunk, step);
          for (std::int64_t i = 0; i < chunk.count; ++i) {
            const std::int64_t at = chunk.begin + i;
            set(sum, at, w == 0 ? value(part, i) : value(sum, at) + value(part, i));
          }
        }
      optimizer->update({0, all, sum}, {.step = step});
    }
    std::vector<std::vector<float>> out;
    for (const Chunk& chunk : chunks_)
      out.push_back(values_of(all.range(chunk.begin, chunk.count)));
    return out;
  }

  std::string refusal(Server& server, int worker, Message message) {
    const Header asked = message.header;
    const Replies replies = server.handle(worker, std::move(message));
    if (replies.size() != 1 || replies[0].worker != worker) return "";
    const Header& header = replies[0].message.header;
    EXPECT_TRUE(header.reply);
    EXPECT_EQ(header.step, asked.step);
    return header.kind == Kind::error ? header.text : "";
  }

  DType dtype_ = DType::f32;
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Model model_;
  std::vector<Chunk> chunks_;
};

TEST_F(ServerTest, MakesItsOwnInitialValues) {
  Server server = make_server(1);
  const auto expected = sequential(1, 0);
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const Replies replies = server.handle(0, pull(0, c, 0));
    ASSERT_EQ(replies.size(), 1u);
    EXPECT_EQ(values_of(replies[0].message.frames.at(0)), expected[c]);
  }
}

class ServerDtypeTest : public ServerTest, public ::testing::WithParamInterface<DType> {
 protected:
  ServerDtypeTest() { dtype_ = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, ServerDtypeTest, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(ServerDtypeTest, EveryOrderOfArrivalHasTheBitsOfASequentialSum) {
  const auto expected = sequential(3, 2);
  std::array<int, 3> order{0, 1, 2};
  do {
    Server server = make_server(3);
    for (std::int64_t step = 0; step < 2; ++step)
      for (std::size_t c = 0; c < chunks_.size(); ++c) {
        Replies replies;
        for (int w : order) {
          EXPECT_TRUE(replies.empty()) << "answered before all had pushed";
          replies = server.handle(w, push(w, c, step));
        }
        ASSERT_EQ(replies.size(), 3u);
        for (const Reply& reply : replies) {
          EXPECT_EQ(reply.message.header.worker, reply.worker);
          EXPECT_EQ(reply.message.header.begin, chunks_[c].begin);
          EXPECT_EQ(reply.message.frames[0].buffer(), replies[0].message.frames[0].buffer())
              << "views of the master values, not copies";
          EXPECT_EQ(reply.message.frames[0].dtype(), dtype_);
          if (step == 1) {
            EXPECT_EQ(values_of(reply.message.frames[0]), expected[c]);
          }
        }
      }
    EXPECT_EQ(server.steps(), 2);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ServerTest, ChunksAreIndependentOfOneAnother) {
  Server server = make_server(2);
  EXPECT_TRUE(server.handle(0, push(0, 0, 0)).empty());
  EXPECT_TRUE(server.handle(1, push(1, 2, 0)).empty());
  EXPECT_EQ(server.handle(0, push(0, 2, 0)).size(), 2u);
  EXPECT_EQ(server.steps(), 0);
  EXPECT_EQ(server.handle(1, push(1, 0, 0)).size(), 2u);
  EXPECT_EQ(server.handle(0, push(0, 2, 1)).size(), 0u) << "the next step of a chunk may begin";
}

TEST_F(ServerTest, ShardedServersHaveTheBitsOfOne) {
  const auto chunks = partition({50, 10}, 2, 128);
  const auto expected = sequential(1, 1);
  int answered = 0;
  for (int s = 0; s < 2; ++s) {
    ServerConfig own = config(1);
    own.server = s;
    Server server(model_, chunks, *device_, own);
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const Replies replies = server.handle(0, push(0, c, 0));
      ASSERT_EQ(replies.size(), 1u);
      if (chunks[c].server == s) {
        EXPECT_EQ(values_of(replies[0].message.frames.at(0)), expected[c]);
        ++answered;
      } else {
        EXPECT_EQ(replies[0].message.header.kind, Kind::error);
      }
    }
  }
  EXPECT_EQ(answered, 3);
}

TEST_F(ServerTest, KeepsMemoryForItsOwnPartAlone) {
  const MemoryUse before = device_->ledger().current();
  ServerConfig own = config(1);
  const auto chunks = partition({64, 64}, 2);
  Model model;
  model.units.push_back(std::make_unique<Range>(64, *device_));
  model.units.push_back(std::make_unique<Range>(64, *device_));
  const Server server(model, chunks, *device_, own);
  const MemoryUse now = device_->ledger().current();
  for (const auto& [kind, bytes] : {std::pair{MemoryKind::parameter, 256},
                                    {MemoryKind::gradient, 256},
                                    {MemoryKind::optimizer, 512}})
    EXPECT_EQ(now[kind] - before[kind], bytes) << name_of(kind);
}

TEST_F(ServerTest, Bf16HalvesParametersAndSumsAndHasMasters) {
  dtype_ = DType::bf16;
  const MemoryUse before = device_->ledger().current();
  Server server = make_server(1);
  const MemoryUse now = device_->ledger().current();
  for (const auto& [kind, bytes] : {std::pair{MemoryKind::parameter, 2 * 60},
                                    {MemoryKind::gradient, 2 * 60},
                                    {MemoryKind::optimizer, 12 * 60}})
    EXPECT_EQ(now[kind] - before[kind], bytes) << name_of(kind);
  Message other = push(0, 0, 0);
  other.frames[0] = device_->tensor({32}, MemoryKind::gradient);
  EXPECT_NE(refusal(server, 0, other).find("one frame of 32 bf16"), std::string::npos);
}

TEST_F(ServerTest, AsksForTheTimeOfItsUpdatesAtTheEndOrWhenTheyAreMany) {
  AskedDevice device;
  ServerConfig own = config(1);
  own.steps = 1000;
  own.warmup = 2;
  Server server(model_, chunks_, device, own);
  std::int64_t step = 0;
  const auto train = [&](std::int64_t steps) {
    for (const std::int64_t end = step + steps; step < end; ++step)
      for (std::size_t c = 0; c < chunks_.size(); ++c) server.handle(0, push(0, c, step));
  };
  train(2);
  EXPECT_EQ(server.optimizer_seconds(), 0) << "warm-up";
  train(8);
  EXPECT_EQ(device.asked, 0);
  const double seconds = server.optimizer_seconds();
  EXPECT_GT(seconds, 0);
  EXPECT_EQ(device.asked, 2 * 3 * 8);
  EXPECT_EQ(server.optimizer_seconds(), seconds);
  device.asked = 0;
  train(500);
  EXPECT_GT(device.asked, 0) << "or the marks of a long run would fill the memory";
  EXPECT_LT(device.asked, 2 * 3 * 500);
}

TEST_F(ServerTest, AServerWithoutChunksServesSums) {
  ServerConfig own = config(1);
  own.server = 3;
  Server server(model_, chunks_, *device_, own);
  EXPECT_EQ(server.steps(), own.steps);
  const Message reply = server.handle(0, summand(0, 0, {1.5})).at(0).message;
  EXPECT_EQ(doubles_of(reply), std::vector<double>{1.5});
}

TEST_F(ServerTest, APullWaitsForTheStepThatItAsksFor) {
  Server server = make_server(2);
  EXPECT_TRUE(server.handle(0, push(0, 1, 0, Kind::push)).empty());
  EXPECT_TRUE(server.handle(0, pull(0, 1, 1)).empty());
  EXPECT_EQ(server.handle(1, pull(1, 1, 0)).size(), 1u) << "values before step 0 are there";
  const Replies replies = server.handle(1, push(1, 1, 0, Kind::push));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].worker, 0);
  EXPECT_EQ(replies[0].message.header.kind, Kind::pull);
  EXPECT_EQ(values_of(replies[0].message.frames.at(0)), sequential(2, 1)[1]);
}

TEST_F(ServerTest, SumsDoublesInRankOrder) {
  const double parts[] = {1e16, 1.0, -1e16};
  std::array<int, 3> order{0, 1, 2};
  do {
    Server server = make_server(3);
    for (std::int64_t round = 0; round < 2; ++round) {
      Replies replies;
      for (int w : order) {
        EXPECT_TRUE(replies.empty());
        replies = server.handle(w, summand(w, round, {parts[w], 0.5}));
      }
      ASSERT_EQ(replies.size(), 3u);
      for (const Reply& reply : replies) {
        EXPECT_EQ(doubles_of(reply.message), (std::vector<double>{(1e16 + 1.0) - 1e16, 1.5}));
        EXPECT_EQ(reply.message.header.worker, reply.worker);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ServerTest, RefusesWhatIsWrongAndStaysSane) {
  Server server = make_server(2);
  server.handle(0, push(0, 0, 0));
  const auto changed = [&](auto change, int worker = 1) {
    Message message = push(worker, 0, 0);
    change(message);
    return message;
  };
  const auto expect = [&](Message message, const char* cause, int worker = 1) {
    const std::string text = refusal(server, worker, std::move(message));
    EXPECT_NE(text.find(cause), std::string::npos) << text << " | " << cause;
  };
  expect(changed([](Message& m) { m.header.token ^= 1; }), "token of another run");
  expect(changed([](Message& m) { m.header.worker = 0; }), "signed by worker 0");
  expect(changed([](Message&) {}, 2), "workers are 0 to 1", 2);
  expect(changed([](Message&) {}, -1), "workers are 0 to 1", -1);
  expect(changed([](Message& m) { m.header.reply = true; }), "it is a reply");
  expect(changed([](Message& m) { m.header.begin = 1; }), "32 elements from 1 on are no chunk");
  expect(changed([](Message& m) { m.header.begin = -32; }), "no chunk");
  expect(changed([](Message& m) { m.header.count = 16; }), "no chunk");
  expect(changed([](Message& m) { m.frames.clear(); }), "one frame of 32 fp32");
  expect(changed([](Message& m) { m.frames.push_back(m.frames[0]); }), "one frame of 32");
  expect(changed([](Message& m) { m.frames[0] = m.frames[0].range(0, 31); }), "one frame of 32");
  expect(changed([this](Message& m) {
           m.frames[0] = device_->tensor({32}, MemoryKind::gradient, DType::i32);
         }),
         "one frame of 32 fp32");
  expect(changed([](Message& m) { m.header.step = 1; }), "step 1 pushed where step 0 is due");
  expect(changed([](Message& m) { m.header.step = -1; }), "step -1 was pushed before");
  expect(push(0, 0, 0), "step 0 was pushed before", 0);
  expect(push(0, 0, 1), "another worker's step 0 is missing", 0);
  expect(pull(1, 0, 1), "by a worker that pushed 0");
  expect(about(Kind::inputs, 1, chunks_[0], 0), "no answer to that");
  expect(about(Kind::error, 1, chunks_[0], 0), "no answer to that");
  expect(summand(1, 1, {1}), "sum 1 where sum 0 is due");
  Message single = summand(1, 0, {1});
  single.frames[0] = device_->tensor({1}, MemoryKind::communication);
  expect(single, "one frame of fp64 values");
  EXPECT_TRUE(server.handle(1, summand(1, 0, {1})).empty());
  expect(summand(1, 0, {1}), "has its values already");
  expect(summand(0, 0, {1, 2}), "another worker gave 1", 0);

  const Replies replies = server.handle(1, push(1, 0, 0));
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(values_of(replies[0].message.frames.at(0)), sequential(2, 1)[0]);
  EXPECT_EQ(server.steps(), 0) << "the other chunks have had none";
}

TEST_F(ServerTest, IsFinishedWhenEveryWorkerIsDone) {
  Server server = make_server(2);
  Message done;
  done.header = {.token = token, .kind = Kind::done, .worker = 1};
  EXPECT_TRUE(server.handle(1, done).empty());
  EXPECT_TRUE(server.is_done(1));
  EXPECT_FALSE(server.finished());
  EXPECT_NE(refusal(server, 1, push(1, 0, 0)).find("had said that it was done"), std::string::npos);
  done.header.worker = 0;
  server.handle(0, done);
  EXPECT_TRUE(server.finished());
  EXPECT_TRUE(server.failure().empty());
}

TEST_F(ServerTest, RemembersWhyAWorkerGaveUp) {
  Server server = make_server(2);
  Message failed;
  failed.header = {.token = token, .kind = Kind::failed, .worker = 1, .text = "out of memory"};
  EXPECT_TRUE(server.handle(1, failed).empty());
  EXPECT_EQ(server.failure(), "worker 1 gave up: out of memory");
}

}  // namespace
}  // namespace ringside::ps
