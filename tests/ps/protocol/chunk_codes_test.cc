// Codes of chunks, as workers and servers use them.
#include "ps/protocol/chunk_codes.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "tests/ps/server_fixture.h"

namespace ringside::ps {
namespace {

class ChunkCodesTest : public ServerTest {
 protected:
  /// The code of chunk 1, elements 32 to 49 of a tensor of 50.
  ChunkCodes codes(const CompressionOptions& options, int sender = 0) {
    return {options, model_, chunks_[1].begin, chunks_[1].count, *device_, 7, sender};
  }
  Tensor waves(double phase) const {
    const Tensor out = device_->tensor({chunks_[1].count}, MemoryKind::gradient);
    for (std::int64_t i = 0; i < out.count(); ++i)
      set(out, i, static_cast<float>(std::sin(phase + 0.9 * static_cast<double>(i))));
    return out;
  }
  Tensor decoded(const ChunkCodes& codes, const Tensor& code) const {
    const Tensor out = device_->tensor({codes.count()}, MemoryKind::gradient);
    codes.decode(code, out);
    return out;
  }
  static double distance(const Tensor& a, const Tensor& b) {
    double most = 0;
    for (std::int64_t i = 0; i < a.count(); ++i)
      most = std::max(most, std::abs(double{value(a, i)} - double{value(b, i)}));
    return most;
  }
};

TEST_F(ChunkCodesTest, OfAllElementsAreTheValues) {
  ChunkCodes all = codes({.compressor = "topk", .ratio = 1});
  EXPECT_EQ(all.form().shape.count(), 8 * 18);
  EXPECT_EQ(distance(decoded(all, all.encode(waves(1))), waves(1)), 0);
}

TEST_F(ChunkCodesTest, OfAPartOfATensorRoundAsTheyPromise) {
  ChunkCodes int8 = codes({.compressor = "int8", .block = 10});
  EXPECT_EQ(int8.form().shape.count(), 4 * 2 + 18 + 2) << "two blocks, and whole words";
  const Tensor values = waves(2), out = decoded(int8, int8.encode(values));
  EXPECT_GT(distance(out, values), 0);
  EXPECT_LE(distance(out, values), 1.0 / 127 + 1e-6) << "a level of the largest value";
  ChunkCodes other = codes({.compressor = "int8", .block = 10}, 1);
  EXPECT_GT(distance(decoded(other, other.encode(values)), out), 0) << "other random numbers";
}

/// What a sender loses of one gradient it adds to the next: all that was sent is all that was
/// given, but for what it still remembers.
TEST_F(ChunkCodesTest, RememberWhatTheyLose) {
  const CompressionOptions options{.compressor = "topk", .ratio = 0.25};
  ChunkCodes sender = codes(options);
  const ChunkCodes reader = codes(options);
  const Tensor sent = device_->tensor({18}, MemoryKind::gradient);
  device_->kernels().fill({.out = sent});
  const Tensor nothing = device_->tensor({18}, MemoryKind::gradient);
  device_->kernels().fill({.out = nothing});
  add_decoded(*device_, reader, sender.encode(waves(3)), sent);
  EXPECT_GT(distance(sent, waves(3)), 0.1);
  // 18 elements, 4 at a time.
  for (int i = 0; i < 4; ++i) add_decoded(*device_, reader, sender.encode(nothing), sent);
  EXPECT_LE(distance(sent, waves(3)), 1e-6);
}

TEST_F(ChunkCodesTest, FollowValuesWithoutAMemory) {
  const CompressionOptions options{
      .compressor = "topk", .memory = ErrorMemory::none, .ratio = 0.25};
  const ChunkCodes reader = codes(options);
  const Tensor has = waves(0);
  FollowedValues followed(codes(options), has, *device_);
  for (int i = 0; i < 5; ++i) {
    add_decoded(*device_, reader, followed.follow(waves(1)), has);
    EXPECT_EQ(distance(has, followed.values()), 0) << "both ends have the same";
  }
  EXPECT_LE(distance(has, waves(1)), 1e-6);
}

TEST_F(ChunkCodesTest, IndicesFromElsewhereWriteNothingElsewhere) {
  const CompressionOptions options{.compressor = "topk", .ratio = 0.25};
  ChunkCodes topk = codes(options);
  const Tensor code = topk.encode(waves(1));
  // Four values, then four indices, in bytes.
  const std::int32_t wild[] = {-1, 18, 2, 1 << 30};
  std::memcpy(code.data<std::uint8_t>() + 16, wild, sizeof wild);
  const Tensor around = device_->tensor({54}, MemoryKind::gradient);
  device_->kernels().fill({.out = around, .value = 5});
  topk.decode(code, around.range(18, 18));
  for (std::int64_t i = 0; i < 54; ++i) {
    if (i < 18 || i >= 36) {
      EXPECT_EQ(value(around, i), 5) << i;
    } else if (i != 20) {
      EXPECT_EQ(value(around, i), 0) << i;
    }
  }
}

/// A server adds up what the codes of its workers stand for, in their order.
TEST_F(ChunkCodesTest, AServerTakesCodesOfTheRightSizeAlone) {
  ServerConfig own = config(2);
  own.optimizer.kind = "sgd";
  own.optimizer.lr = 1;
  own.optimizer.momentum = own.optimizer.weight_decay = 0;
  own.codes.pushes = {.compressor = "topk", .ratio = 1};
  ParameterServer server(model_, chunks_, *device_, own);
  EXPECT_THAT(refusal(server, 0, push(0, 1, 0)),
              ::testing::HasSubstr("one frame of 144 uint8 elements"));
  const auto values_after = [&](const Replies& replies) {
    return replies.at(0).message.frames.at(0);
  };
  ChunkCodes all = codes(own.codes.pushes);
  Tensor expected = device_->tensor({18}, MemoryKind::gradient);
  device_->kernels().copy(
      {.in = values_after(server.handle(0, about(Kind::peek, 0, chunks_[1], 0))), .out = expected});
  Replies replies;
  for (int worker = 0; worker < 2; ++worker) {
    Message message = about(Kind::push_pull, worker, chunks_[1], 0);
    message.frames.push_back(all.encode(waves(worker)));
    replies = server.handle(worker, std::move(message));
  }
  for (std::int64_t i = 0; i < 18; ++i)
    set(expected, i, value(expected, i) - (value(waves(0), i) + value(waves(1), i)));
  EXPECT_LE(distance(values_after(replies), expected), 1e-6);
}

}  // namespace
}  // namespace ringside::ps
