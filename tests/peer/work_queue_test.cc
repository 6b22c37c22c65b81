#include "peer/comm/shm/work_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/support/complaint.h"

namespace ringside::peer {
namespace {

using testing::complaint;

class WorkQueueTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  WorkQueue queue_{*device_};
};

TEST_F(WorkQueueTest, AnOperationGoesOnBesideTheThreadThatBeganIt) {
  std::promise<void> go;
  const WorkPtr work = queue_.submit([&] { go.get_future().wait(); });
  EXPECT_FALSE(work->ready());
  go.set_value();
  work->wait();
  EXPECT_TRUE(work->ready());
}

TEST_F(WorkQueueTest, WhatAnOperationThrowsComesOutOfItsWait) {
  const WorkPtr work = queue_.submit([] { throw Error("the peer has gone"); });
  EXPECT_EQ(complaint([&] { work->wait(); }), "the peer has gone");
}

TEST_F(WorkQueueTest, WhoWaitsAtOnceRunsTheOperationAfterThoseBefore) {
  std::vector<int> order;
  const WorkPtr first = queue_.submit([&] { order.push_back(1); });
  std::thread::id ran;
  queue_.complete([&] {
    return queue_.submit([&] {
      order.push_back(2);
      ran = std::this_thread::get_id();
    });
  });
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(WorkQueueTest, AfterAFailureAtOnceOperationsAreQueuedAgain) {
  EXPECT_EQ(complaint([&] {
              queue_.complete([&] { return queue_.submit([] { throw Error("it failed"); }); });
            }),
            "it failed");
  std::promise<void> go;
  const WorkPtr work = queue_.submit([&] { go.get_future().wait(); });  // here it would hang
  go.set_value();
  work->wait();
}

}  // namespace
}  // namespace ringside::peer
