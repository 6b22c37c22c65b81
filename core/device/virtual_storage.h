// VirtualStorage: where the checkpoints of a simulated rank go.
#pragma once

#include "core/device/device.h"

namespace ringside {

/// Lets the time pass that copies and writes of one rank's checkpoints take; nothing is kept. For
/// one thread.
class VirtualStorage {
 public:
  virtual ~VirtualStorage() = default;
  /// Blocks until the host has a copy of `bytes` that lie on `from`: they go over the device's link
  /// to its host, or through the host's own memory.
  virtual void copy(Device& from, double bytes) = 0;
  /// Begins to write `bytes` of the host's memory, beside the rank. Nothing else is being written.
  virtual void write(double bytes) = 0;
  /// Blocks until what is being written is on the storage. Returns the seconds that the latest
  /// write took; 0 if there was none since the last call.
  virtual double wait() = 0;
};

}  // namespace ringside
