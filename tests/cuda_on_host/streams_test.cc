// Streams and events of the CUDA runtime on the host: order, waits, times, errors.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "tests/cuda_on_host/control.h"
#include "tests/cuda_on_host/stream.h"

namespace cuda_on_host {
namespace {

struct Stream {
  cudaStream_t handle = nullptr;
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(handle), cudaSuccess); }
  void synchronize() { EXPECT_EQ(cudaStreamSynchronize(handle), cudaSuccess); }
};

struct Event {
  cudaEvent_t handle = nullptr;
  explicit Event(unsigned flags = cudaEventDefault) {
    EXPECT_EQ(cudaEventCreateWithFlags(&handle, flags), cudaSuccess);
  }
  ~Event() { EXPECT_EQ(cudaEventDestroy(handle), cudaSuccess); }
};

// Holds a stream until the gate is opened.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> opened = promise.get_future().share();
  void hold(cudaStream_t stream) {
    enqueue(stream, [opened = opened] { opened.wait(); });
  }
  void open() { promise.set_value(); }
};

TEST(HostStream, TasksRunInOrderAndTheHostGoesOn) {
  Stream stream;
  Gate gate;
  gate.hold(stream.handle);
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) enqueue(stream.handle, [&order, i] { order.push_back(i); });
  EXPECT_EQ(cudaStreamQuery(stream.handle), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(cudaStreamQuery(stream.handle), cudaSuccess);
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(HostStream, DestroyedWithWorkItDoesTheWork) {
  Gate gate;
  std::promise<void> done;
  {
    Stream stream;
    gate.hold(stream.handle);
    enqueue(stream.handle, [&] { done.set_value(); });
  }
  gate.open();
  done.get_future().wait();
}

TEST(HostStream, AWaitOrdersStreamsAndItsAbsenceShows) {
  for (const bool waits : {true, false}) {
    Stream producer, consumer;
    Event made;
    Gate gate;
    std::atomic<int> value = 0;
    int seen = -1;
    gate.hold(producer.handle);
    enqueue(producer.handle, [&] { value = 1; });
    EXPECT_EQ(cudaEventRecord(made.handle, producer.handle), cudaSuccess);
    if (waits) {
      EXPECT_EQ(cudaStreamWaitEvent(consumer.handle, made.handle), cudaSuccess);
    }
    enqueue(consumer.handle, [&] { seen = value; });
    if (!waits) consumer.synchronize();
    gate.open();
    consumer.synchronize();
    producer.synchronize();
    EXPECT_EQ(seen, waits ? 1 : 0);
  }
}

TEST(HostEvent, AWaitIsForTheRecordBeforeIt) {
  Stream producer, consumer;
  Event event;
  Gate gate;
  EXPECT_EQ(cudaEventRecord(event.handle, producer.handle), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(consumer.handle, event.handle), cudaSuccess);
  gate.hold(producer.handle);
  EXPECT_EQ(cudaEventRecord(event.handle, producer.handle), cudaSuccess);
  consumer.synchronize();
  EXPECT_EQ(cudaEventQuery(event.handle), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event.handle), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event.handle), cudaSuccess);
}

TEST(HostEvent, TimesGrowAlongAStream) {
  Stream stream;
  Event begin, end, never, without_time{cudaEventDisableTiming};
  Gate gate;
  float ms = -1;
  EXPECT_EQ(cudaEventQuery(never.handle), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(begin.handle, stream.handle), cudaSuccess);
  gate.hold(stream.handle);
  EXPECT_EQ(cudaEventRecord(end.handle, stream.handle), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(without_time.handle, stream.handle), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin.handle, end.handle), cudaErrorNotReady);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin.handle, end.handle), cudaSuccess);
  EXPECT_GT(ms, 0);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin.handle, never.handle), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin.handle, without_time.handle),
            cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST(HostStream, NothingOfTheRuntimeIsCalledOnItsThread) {
  Stream stream;
  cudaError_t status = cudaSuccess;
  const auto call = [](void* data) {
    int count = 0;
    *static_cast<cudaError_t*>(data) = cudaGetDeviceCount(&count);
  };
  EXPECT_EQ(cudaLaunchHostFunc(stream.handle, call, &status), cudaSuccess);
  stream.synchronize();
  EXPECT_EQ(status, cudaErrorNotPermitted);
}

TEST(HostDriver, SaysWhatItWasTold) {
  int count = -1, device = -1;
  fail_next("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorInsufficientDriver");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(count, -1);
  set_device_count(2);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  // An event of one device cannot be recorded in a stream of another device.
  Event event;
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  Stream stream;
  EXPECT_EQ(cudaEventRecord(event.handle, stream.handle), cudaErrorInvalidResourceHandle);
  set_device_count(0);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  set_device_count(1);
  cudaGetLastError();
}

}  // namespace
}  // namespace cuda_on_host
