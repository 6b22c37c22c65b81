// The records of ranks about their last collectives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "peer/comm/records.h"
#include "peer/comm/shm/shared_records.h"

namespace ringside::peer {
namespace {

Collective call_of(std::uint64_t bytes) {
  return {.kind = Collective::Kind::all_reduce, .bytes = bytes};
}

/// The numbers of the collectives; those under way are negative.
std::vector<int> numbers(const std::vector<Record>& records) {
  std::vector<int> out;
  for (const Record& record : records)
    out.push_back((record.ended == 0 ? -1 : 1) * static_cast<int>(record.number));
  return out;
}

TEST(Records, KeepTheLastOnesThatHaveEndedAndAllThatAreUnderWay) {
  Records records(3);
  const auto begin = [&](std::uint64_t number) {
    records.begin(number, call_of(4 * number), "", static_cast<double>(number));
  };
  for (std::uint64_t number = 1; number <= 5; ++number) {
    begin(number);
    records.end(number, static_cast<double>(number) + 0.5);
  }
  EXPECT_EQ(numbers(records.list()), (std::vector{3, 4, 5}));
  EXPECT_EQ(records.list().back().call.bytes, 20u);
  EXPECT_EQ(records.list().back().ended, 5.5);
  for (std::uint64_t number = 6; number <= 10; ++number) begin(number);
  EXPECT_EQ(numbers(records.list()), (std::vector{-6, -7, -8, -9, -10}));
  records.end(6, 20);
  records.end(7, 20);
  begin(11);
  EXPECT_EQ(numbers(records.list()), (std::vector{-8, -9, -10, -11}));
}

TEST(Records, CutWhatARankSaysOfACollective) {
  Records records;
  records.begin(1, {}, std::string(100, 'x'), 1);
  EXPECT_EQ(std::string(records.list().front().purpose), std::string(55, 'x'));
}

TEST(SharedRecords, KeepTheLastOnes) {
  const auto records = std::make_unique<SharedRecords>();
  EXPECT_TRUE(records->list().empty());
  for (std::uint64_t number = 1; number <= 300; ++number) {
    records->begin(number, call_of(4 * number), fmt::format("bucket {}", number), 1);
    if (number < 300) records->end(number, 2);
  }
  const std::vector<Record> list = records->list();
  ASSERT_EQ(list.size(), SharedRecords::kept);
  EXPECT_EQ(list.front().number, 300 - SharedRecords::kept + 1);
  EXPECT_EQ(std::string(list.front().purpose), fmt::format("bucket {}", list.front().number));
  EXPECT_EQ(list.front().ended, 2);
  EXPECT_EQ(list.back().call.bytes, 1200u);
  EXPECT_EQ(list.back().ended, 0);
}

/// Other ranks read while the rank writes: whatever they find is one collective's.
TEST(SharedRecords, AreNeverReadHalfWritten) {
  const auto records = std::make_unique<SharedRecords>();
  std::atomic<bool> over{false};
  std::jthread rank([&] {
    for (std::uint64_t number = 1; number <= 50'000; ++number) {
      const auto now = static_cast<double>(number);
      records->begin(number, call_of(number), fmt::format("{0} {0} {0} {0}", number), now);
      records->end(number, now);
    }
    over = true;
  });
  std::size_t seen = 0;
  for (bool last = false; !last;) {
    last = over;
    for (const Record& record : records->list()) {
      ++seen;
      const auto now = static_cast<double>(record.number);
      const bool whole =
          record.call.bytes == record.number && record.begun == now &&
          (record.ended == 0 || record.ended == now) &&
          std::string(record.purpose) == fmt::format("{0} {0} {0} {0}", record.number);
      ASSERT_TRUE(whole) << record.number << " " << record.purpose;
    }
  }
  EXPECT_GE(seen, SharedRecords::kept);
}

}  // namespace
}  // namespace ringside::peer
