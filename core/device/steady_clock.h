// SteadyClock: the clock of devices that compute in real time.
#pragma once

#include "core/base/seconds_now.h"
#include "core/device/device.h"

namespace ringside {

/// Its time is the same on all devices of a host, so marks of several ranks can be compared.
class SteadyClock final : public Clock {
 public:
  double now() const override { return seconds_now(); }
};

}  // namespace ringside
