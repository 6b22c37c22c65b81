// Objects that the threads of one rank share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <typeindex>

namespace ringside {

/// Holds one object of each type, made by the first caller that asks for the type. Two threads of a
/// rank find each other through this class, and the rank need not know what they share.
/// Thread-safe.
class Shared {
 public:
  template <class T>
  std::shared_ptr<T> get() {
    std::lock_guard lock(mutex_);
    std::shared_ptr<void>& object = objects_[typeid(T)];
    if (!object) object = std::make_shared<T>();
    return std::static_pointer_cast<T>(object);
  }

 private:
  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> objects_;
};

}  // namespace ringside
