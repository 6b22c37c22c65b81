#include "core/comm/store.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/base/error.h"

namespace ringside {
namespace {

TEST(MemoryStoreTest, GetWaitsForSet) {
  MemoryStore store;
  std::jthread setter([&] { store.set("key", "value"); });
  EXPECT_EQ(store.get("key", 30), "value");
}

TEST(MemoryStoreTest, GetNamesTheKeyThatWasNotSet) {
  MemoryStore store;
  try {
    store.get("endpoint", 0.01);
    FAIL() << "get returned";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'endpoint'"), std::string::npos);
  }
}

TEST(MemoryStoreTest, AKeyIsWrittenOnce) {
  MemoryStore store;
  store.set("key", "a");
  EXPECT_THROW(store.set("key", "b"), Error);
  EXPECT_EQ(store.get("key", 1), "a");
}

}  // namespace
}  // namespace ringside
