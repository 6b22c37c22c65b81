// The memory of a server, and the measurement of its updates.
#include <utility>

#include "tests/ps/server_fixture.h"
#include "tests/support/staged_device.h"

namespace ringside::ps {
namespace {

/// Counts the calls of time(), which ask when a mark was reached.
class AskedDevice : public testing::StagedDevice {
 public:
  AskedDevice() : StagedDevice(1, 0) {}
  double time(const Mark& mark) override {
    ++asked;
    return StagedDevice::time(mark);
  }
  int asked = 0;
};

TEST_F(ServerTest, KeepsMemoryForItsOwnPartAlone) {
  const auto chunks = partition({64, 64}, 2);
  Model model;
  model.units.push_back(std::make_unique<Range>(64, *device_));
  model.units.push_back(std::make_unique<Range>(64, *device_));
  for (const auto& [workers, sums] : {std::pair{1, 0}, {2, 256}}) {
    const MemoryUse before = device_->ledger().current();
    const ParameterServer server(model, chunks, *device_, config(workers));
    const MemoryUse now = device_->ledger().current();
    for (const auto& [kind, bytes] : {std::pair{MemoryKind::parameter, 256},
                                      {MemoryKind::gradient, sums},
                                      {MemoryKind::optimizer, 512}})
      EXPECT_EQ(now[kind] - before[kind], bytes) << name_of(kind) << ", workers: " << workers;
  }
}

TEST_F(ServerTest, Bf16HalvesParametersAndSumsAndHasMasters) {
  dtype_ = DType::bf16;
  const MemoryUse before = device_->ledger().current();
  ParameterServer server = make_server(2);
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
  ParameterServer server(model_, chunks_, device, own);
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

}  // namespace
}  // namespace ringside::ps
