// Arrays that all ranks of a group read and write in place.
#include <gtest/gtest.h>

#include "tests/peer/sim_ranks.h"
#include "tests/support/complaint.h"

namespace ringside {
namespace {

using namespace testing;

/// Each rank writes its part and reads all parts; then it writes one element of the next rank's
/// part.
void write_and_read(const Rank& r) {
  constexpr std::int64_t part = 1000;
  const auto before = r.device.ledger().current();
  const Tensor array = r.comm.share(part, MemoryKind::parameter, DType::f32);
  ASSERT_EQ(array.count(), part * r.size);
  EXPECT_EQ(array.buffer()->kind(), MemoryKind::parameter);
  auto counted = before;
  counted[MemoryKind::parameter] += part * 4;
  EXPECT_EQ(r.device.ledger().current(), counted);
  const auto value = [](std::int64_t i) { return static_cast<float>(3 * i + 1); };
  const std::int64_t begin = r.rank * part;
  r.set(array.range(begin, part), [&](std::int64_t i) { return value(begin + i); });
  r.comm.barrier();
  const auto values = r.values(array);
  for (std::int64_t i = 0; i < array.count(); ++i)
    ASSERT_EQ(values[static_cast<std::size_t>(i)], value(i)) << i;
  r.comm.barrier();
  // What a rank writes into another rank's part, that rank sees.
  const std::int64_t next = (r.rank + 1) % r.size * part;
  r.set(array.range(next, 1), [&](std::int64_t) { return static_cast<float>(-r.rank); });
  r.comm.barrier();
  EXPECT_EQ(r.values(array.range(begin, 1))[0],
            static_cast<float>(-((r.rank + r.size - 1) % r.size)));
  // A second array is another one.
  const Tensor other = r.comm.share(1, MemoryKind::gradient, DType::bf16);
  EXPECT_EQ(other.count(), r.size);
  EXPECT_FALSE(other.begins_at(array));
  EXPECT_EQ(r.comm.traffic().sent, 0);
}

TEST(SharedArrays, AreOneForAllRanksOfAHost) {
  for (const int size : {2, 3, 4}) run_ranks(size, write_and_read);
}

TEST(SharedArrays, AreOneForSimulatedRanksOfACpu) {
  for (const int size : {2, 3, 4}) run_simulated(one_pass(), size, write_and_read);
}

TEST(SharedArrays, AreGivenBackWithTheirLastTensor) {
  const auto body = [](const Rank& r) {
    const auto before = r.device.ledger().current();
    Tensor array = r.comm.share(5, MemoryKind::parameter, DType::f32);
    Tensor part = array.range(1, 1);
    array = {};
    EXPECT_NE(r.device.ledger().current(), before);
    r.comm.barrier();
    EXPECT_EQ(r.values(part).size(), 1u);
    part = {};
    EXPECT_EQ(r.device.ledger().current(), before);
    r.comm.barrier();
  };
  run_ranks(2, body);
  run_simulated(one_pass(), 2, body);
}

TEST(SharedArrays, MayBeEmptyOrWithoutValues) {
  const auto empty = [](const Rank& r) {
    EXPECT_EQ(r.comm.share(0, MemoryKind::parameter, DType::f32).count(), 0);
  };
  run_ranks(2, empty);
  run_simulated(one_pass(), 2, empty);
  Simulated timed = one_pass();
  timed.numerics = false;
  run_simulated(timed, 2, [](const Rank& r) {
    const Tensor array = r.comm.share(7, MemoryKind::parameter, DType::f32);
    EXPECT_EQ(array.count(), 14);
    EXPECT_EQ(array.data<float>(), nullptr);
  });
}

TEST(SharedArrays, HaveOneSize) {
  const auto body = [](const Rank& r) {
    r.comm.share(2 + r.rank, MemoryKind::parameter, DType::f32);
  };
  for (const auto& errors :
       {errors_of_ranks(2, 30, body), errors_of_simulated(one_pass(), 2, body)})
    for (const std::string& error : errors)
      EXPECT_NE(error.find("share of 16 bytes"), std::string::npos) << error;
}

/// Where values have to go over links, there is none.
TEST(SharedArrays, DoNotExistBetweenMemories) {
  const auto none = [](const Rank& r) {
    EXPECT_FALSE(r.comm.share(5, MemoryKind::parameter, DType::f32));
    r.comm.barrier();
  };
  run_simulated(rings_as_messages(4), 2, none);
  run_ranks(1, none);
  run_ranks(2, none, Algorithm::ring);
  Simulated ring = one_pass();
  ring.algorithm = Algorithm::ring;
  run_simulated(ring, 2, none);
}

}  // namespace
}  // namespace ringside
