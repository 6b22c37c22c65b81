// Copies into new tensors beside compute.
#include <gmock/gmock.h>

#include "tests/cuda/fixture.h"
#include "tests/cuda/gate.h"

namespace ringside {
namespace {

using testing::complaint;
using ::testing::Each;
using ::testing::HasSubstr;

/// The number of floats in 16 MiB, which is more than fits into the pinned memory of the copies.
constexpr std::int64_t large = 4 << 20;

class CudaUploads : public OnGpu {
 protected:
  static void write(Upload& upload, const Tensor& to, float value) {
    const std::vector<float> values(static_cast<std::size_t>(to.count()), value);
    upload.write(to, std::as_bytes(std::span(values)));
  }
  Tensor fresh(std::int64_t count) const { return device().tensor({count}, MemoryKind::data); }
};

TEST_F(CudaUploads, RunWhileComputeStandsStill) {
  const Tensor sum = filled(1000, 1);
  const Tensor to = fresh(large);
  const auto upload = device().upload();
  Gate gate(device().compute_stream());
  device().kernels().add({.in = filled(1000, 1), .out = sum});
  for (std::int64_t begin = 0; begin < large; begin += 1 << 18)
    write(*upload, to.range(begin, 1 << 18), static_cast<float>(begin));
  upload->finish();
  device().kernels().add({.in = to.range(large - 1000, 1000), .out = sum});
  gate.open();
  EXPECT_THAT(values_of(sum), Each(2 + large - (1 << 18)));
  const std::vector<float> values = values_of(to);
  for (std::size_t i = 0; i < values.size(); i += 1 << 12)
    ASSERT_EQ(values[i], static_cast<float>(i >> 18 << 18));
}

TEST_F(CudaUploads, WaitUntilComputeHasLeftTheMemory) {
  const Tensor sum = filled(5000, 0);
  Tensor old = filled(5000, 7);
  Gate gate(device().compute_stream());
  device().kernels().add({.in = old, .out = sum});
  old = {};
  const Tensor to = fresh(5000);  // in the memory that `old` had
  const auto upload = device().upload();
  write(*upload, to, 3);
  upload->finish();
  device().kernels().add({.in = to, .out = sum});
  gate.open();
  EXPECT_THAT(values_of(sum), Each(10));
}

TEST_F(CudaUploads, AreThereForLaterCompute) {
  constexpr std::int64_t count = 1 << 20;  // 4 MiB, so that a copy takes a while
  const Tensor sum = filled(1000, 0);
  for (int i = 1; i <= 10; ++i) {
    const Gate gate(device().compute_stream());
    const Tensor to = fresh(count);
    const auto upload = device().upload();
    write(*upload, to, static_cast<float>(i));
    upload->finish();
    device().kernels().add({.in = to.range(count - 1000, 1000), .out = sum});
  }
  EXPECT_THAT(values_of(sum), Each(55));
}

TEST_F(CudaUploads, KeepTheirOrder) {
  const Tensor to = fresh(150'000);
  const auto upload = device().upload();
  for (int i = 0; i < 30; ++i) write(*upload, to, static_cast<float>(i));
  upload->finish();
  EXPECT_THAT(values_of(to), Each(29));
}

TEST_F(CudaUploads, OfOneThatIsNotFinishedTheMemoryIsNotUsedTooEarly) {
  constexpr std::int64_t count = 1 << 18;
  const Tensor other = fresh(1);
  for (int i = 0; i < 5; ++i) {
    Gate gate(device().compute_stream());
    const Tensor before = fresh(6 * count);  // large, so that the copy into `to` comes late
    Tensor to = fresh(count);
    auto upload = device().upload();
    write(*upload, before, 1);
    write(*upload, to, 1);
    upload.reset();
    to = {};
    const Tensor end = fresh(count).range(count - 1000, 1000);  // in the memory that `to` had
    device().kernels().fill({.out = end, .value = 5});
    gate.open();
    const auto after = device().upload();
    write(*after, other, 1);
    after->finish();
    ASSERT_THAT(values_of(end), Each(5));
  }
}

TEST_F(CudaUploads, ThatAreNotBegunHoldUpNoOther) {
  const Tensor first = fresh(1000), second = fresh(large);
  const auto begun = device().upload();
  Gate gate(device().compute_stream());
  device().kernels().fill({.out = first, .value = 2});
  const auto later = device().upload();
  // The gate keeps compute from reaching the point at which `later` was made. The write through
  // `begun` must end all the same.
  write(*begun, second, 4);
  begun->finish();
  gate.open();
  EXPECT_THAT(values_of(first), Each(2));
  EXPECT_EQ(values_of(second).back(), 4);
}

TEST_F(CudaUploads, AreOfTheSizeOfTheirTensor) {
  const Tensor to = fresh(100);
  EXPECT_THAT(
      complaint([&] { device().upload()->write(to, std::vector<std::byte>(4)); }),
      HasSubstr(
          "gpu 0: write: the host's memory has 4 bytes, but the tensor of shape 100 has 400"));
}

}  // namespace
}  // namespace ringside
