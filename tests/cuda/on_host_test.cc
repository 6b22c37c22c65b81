// Work of the host on values of a GPU: its values, and the copies of both ways.
#include "core/device/on_host.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/compress/tensor_codes.h"
#include "tests/cuda/fixture.h"
#include "tests/cuda_on_host/control.h"

namespace ringside {
namespace {

using cuda_on_host::counters;
using ::testing::Each;
using ::testing::ElementsAreArray;

class OnHostOfGpu : public OnGpu {
 protected:
  std::vector<std::uint8_t> bytes_of(const Tensor& tensor) const {
    std::vector<std::uint8_t> out(tensor.bytes());
    device().read(tensor, std::as_writable_bytes(std::span(out)));
    return out;
  }
};

/// Signs with one magnitude, as compressor "onebit" makes them by kernels.
class SignsOnHost final : public compress::TensorCodes {
 public:
  using TensorCodes::TensorCodes;

 private:
  std::int64_t bytes(const Piece& piece) const override {
    return 4 + (piece.shape.count() + 7) / 8;
  }
  void encode(const Piece&, const Tensor& values, const Tensor& code) override {
    on_host(device(), {values}, {code}, {}, [](HostValues& in, HostValues& out) {
      double sum = 0;
      for (const float value : in.of<float>(0)) sum += std::abs(value);
      out.of<float>(0)[0] = static_cast<float>(sum / static_cast<double>(in.of<float>(0).size()));
      for (std::size_t i = 0; i < in.of<float>(0).size(); ++i)
        if (in.of<float>(0)[i] >= 0) out.of<std::uint8_t>(0)[4 + i / 8] |= 1U << i % 8;
    });
  }
  void add(const Piece&, const Tensor& code, float scale, const Tensor& sum) override {
    on_host(device(), {code, sum}, {sum}, {}, [scale](HostValues& in, HostValues& out) {
      const float magnitude = scale * in.of<float>(0)[0];
      for (std::size_t i = 0; i < out.of<float>(0).size(); ++i) {
        const bool positive = (in.of<std::uint8_t>(0)[4 + i / 8] >> i % 8 & 1) != 0;
        out.of<float>(0)[i] = in.of<float>(1)[i] + (positive ? magnitude : -magnitude);
      }
    });
  }
};

TEST_F(OnHostOfGpu, IsDoneOnceBetweenWhatIsEnqueuedBeforeAndAfter) {
  constexpr std::int64_t count = 3000;
  const Tensor in = filled(count, 0), out = filled(count, 7),
               codes = device().tensor({count}, MemoryKind::workspace, DType::u8);
  for (int i = 0; i < 20; ++i) device().kernels().add({.in = filled(count, 1), .out = in});
  values_of(out);  // has taken memory for copies
  const auto before = counters();
  int calls = 0;
  on_host(device(), {in}, {out, codes}, {}, [&](HostValues& given, HostValues& made) {
    ++calls;
    EXPECT_THAT(given.of<float>(0), Each(20));
    EXPECT_THAT(made.of<float>(0), Each(0)) << "whatever the device has there";
    for (float& value : made.of<float>(0)) value = 3;
    for (std::uint8_t& code : made.of<std::uint8_t>(1)) code = 5;
  });
  const auto after = counters();
  device().kernels().add({.in = in, .out = out});
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(values_of(out), Each(20 + 3));
  EXPECT_THAT(bytes_of(codes), Each(5));
  EXPECT_THAT(values_of(in), Each(20)) << "it is not in the list of what changes";
  EXPECT_EQ(after.copies - before.copies, 1 + 2) << "one for each tensor in a list";
  EXPECT_EQ(after.launches, before.launches);
  EXPECT_EQ(after.pageable_copies, before.pageable_copies) << "they go through pinned memory";
  EXPECT_EQ(after.host_mallocs, before.host_mallocs);
}

TEST_F(OnHostOfGpu, ACompressorThereSendsTheMessagesOfKernels) {
  // Codes of whole words: nobody writes what lies between codes.
  constexpr std::int64_t rows = 29, columns = 11, bias = 27, count = rows * columns + bias;
  const CompressorContext context{.device = device(),
                                  .options = {},
                                  .pieces = {{0, {rows, columns}, 0}, {rows * columns, {bias}, 1}},
                                  .worker = 0,
                                  .workers = 2};
  SignsOnHost ours(context);
  const auto kernels = find_compressor("onebit").make(context);
  // Multiples of 1/8, so that every order of a sum gives the same bits.
  std::vector<float> gradient;
  for (std::int64_t i = 0; i < count; ++i)
    gradient.push_back(0.125F * static_cast<float>(i * 37 % 29 - 14));
  const auto step = [&](Compressor& compressor) {
    compressor.begin_step();
    const Tensor values = uploaded(gradient), total = filled(count, 0);
    const Compressor::Form form = compressor.form(0);
    const Tensor message = device().tensor({form.count}, MemoryKind::communication, form.dtype);
    compressor.give(0, values, message);
    const Tensor messages[] = {message, message};
    compressor.take(0, messages, total);
    compressor.keep(message, total, values);
    return std::tuple(bytes_of(message), values_of(total), values_of(values));
  };
  const auto right = step(*kernels);
  const auto before = counters();
  const auto made = step(ours);
  const auto after = counters();
  EXPECT_EQ(made, right);
  EXPECT_THAT(std::get<1>(made), ::testing::Not(Each(0)));
  // Of each piece: its values and its code; three times (two messages, and its own that it keeps)
  // the code, the sum, and the sum again. The test uploads one tensor and reads three.
  EXPECT_EQ(after.copies - before.copies, 2 * (2 + 3 * 3) + 4);
}

}  // namespace
}  // namespace ringside
