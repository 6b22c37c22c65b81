// Copies beside compute.
#include <gmock/gmock.h>

#include "tests/cuda/fixture.h"
#include "tests/cuda/gate.h"

namespace ringside {
namespace {

using ::testing::Each;

class CudaStaging : public OnGpu {
 protected:
  /// A tensor that lies in the host's memory, as the tensors of a received message do.
  Tensor hosted(std::vector<float>& values) const {
    const auto buffer =
        device().adopt(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float),
                       MemoryKind::communication, nullptr);
    return {buffer, 0, Shape{static_cast<std::int64_t>(values.size())}, DType::f32};
  }
};

TEST_F(CudaStaging, CopiesOutWhatComputeHasMade) {
  const auto staging = device().staging();
  Gate gate(device().compute_stream());
  const Tensor tensor = filled(5000, 7);
  const auto copy = staging->out(tensor);
  EXPECT_FALSE(copy->ready());
  gate.open();
  copy->wait();
  EXPECT_TRUE(copy->ready());
  EXPECT_EQ(copy->host().shape(), tensor.shape());
  EXPECT_EQ(copy->host().dtype(), tensor.dtype());
  EXPECT_THAT(copy->host().span<float>(), Each(7));
}

TEST_F(CudaStaging, CopiesOutBesideLaterCompute) {
  const auto staging = device().staging();
  const Tensor tensor = filled(5000, 7);
  const auto copy = staging->out(tensor);
  const Gate gate(device().compute_stream());
  copy->wait();  // ends although compute stands still
  EXPECT_THAT(copy->host().span<float>(), Each(7));
}

TEST_F(CudaStaging, CopiesOutPartsOfAnyDtype) {
  const auto staging = device().staging();
  const Tensor tensor = device().tensor({4}, MemoryKind::gradient, DType::bf16);
  const std::vector<bf16> values = {to_bf16(1), to_bf16(2), to_bf16(3), to_bf16(4)};
  device().write(tensor, std::as_bytes(std::span(values)));
  const auto copy = staging->out(tensor.range(1, 2));
  copy->wait();
  ASSERT_EQ(copy->host().count(), 2);
  EXPECT_EQ(to_float(copy->host().span<bf16>()[0]), 2);
  EXPECT_EQ(to_float(copy->host().span<bf16>()[1]), 3);
}

TEST_F(CudaStaging, KeepsTheSourceUntilTheCopyIsThere) {
  const auto staging = device().staging();
  Gate gate(device().compute_stream());
  Tensor tensor = filled(5000, 7);
  const std::weak_ptr<Buffer> source = tensor.buffer();
  const auto copy = staging->out(tensor);
  tensor = {};
  filled(5000, -1);  // would take the memory of `tensor` if that were free
  EXPECT_FALSE(source.expired());
  gate.open();
  copy->wait();
  EXPECT_TRUE(source.expired());
  EXPECT_THAT(copy->host().span<float>(), Each(7));
}

TEST_F(CudaStaging, OfACopyThatIsNotAwaitedTheSourceIsNotOverwritten) {
  const auto staging = device().staging();
  for (int i = 0; i < 20; ++i) {
    Tensor tensor = filled(1 << 16, static_cast<float>(i));
    auto copy = staging->out(tensor);
    const Tensor host = copy->host();
    copy.reset();
    device().kernels().fill({.out = tensor, .value = -1});
    tensor = {};
    filled(1 << 16, -2);
    device().synchronize();
    EXPECT_THAT(host.span<float>(), Each(static_cast<float>(i)));
  }
}

TEST_F(CudaStaging, HostMemoryBelongsToTheCopyWhileItIsHeld) {
  const auto staging = device().staging();
  std::vector<Tensor> hosts;
  for (int i = 0; i < 20; ++i) {
    const auto copy = staging->out(filled(1000, static_cast<float>(i)));
    copy->wait();
    hosts.push_back(copy->host());
  }
  for (int i = 0; i < 20; ++i)
    EXPECT_THAT(hosts[static_cast<std::size_t>(i)].span<float>(), Each(static_cast<float>(i)));
}

TEST_F(CudaStaging, CopiesInWhatLaterComputeSees) {
  const auto staging = device().staging();
  const auto before = device().ledger().current()[MemoryKind::communication];
  std::vector<float> values(5000);
  const Tensor sum = filled(5000, 0);
  const Tensor host = hosted(values);
  for (int i = 1; i <= 100; ++i) {
    values.assign(5000, static_cast<float>(i));  // the previous in() has read the old values
    const Tensor in = staging->in(host);
    EXPECT_EQ(device().ledger().current()[MemoryKind::communication] - before, 20000);
    device().kernels().add({.in = in, .out = sum});
  }
  EXPECT_THAT(values_of(sum), Each(5050));
  EXPECT_EQ(device().ledger().current()[MemoryKind::communication], before);
}

TEST_F(CudaStaging, CopiesInWithoutWaitingForCompute) {
  const auto staging = device().staging();
  std::vector<float> values(5000, 3);
  Gate gate(device().compute_stream());
  const Tensor sum = filled(5000, 1);
  std::vector<Tensor> parts;
  for (int i = 0; i < 10; ++i) {
    values.assign(5000, static_cast<float>(i));
    parts.push_back(staging->in(hosted(values)));
    device().kernels().add({.in = parts.back(), .out = sum});
  }
  gate.open();
  EXPECT_THAT(values_of(sum), Each(46));
}

TEST_F(CudaStaging, MayEndBeforeItsCopies) {
  auto staging = device().staging();
  Gate gate(device().compute_stream());
  const auto copy = staging->out(filled(5000, 7));
  std::vector<float> values(5000, 3);
  const Tensor in = staging->in(hosted(values));
  staging.reset();
  gate.open();
  copy->wait();
  EXPECT_THAT(copy->host().span<float>(), Each(7));
  EXPECT_THAT(values_of(in), Each(3));
}

}  // namespace
}  // namespace ringside
