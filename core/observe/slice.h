// The slices of a rank in a trace: spans of time, and the use of memory over time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"
#include "core/device/ledger.h"

namespace ringside {

/// Attributes of a span besides its name. Every member may be left out.
struct SpanNote {
  /// The track of the span in a trace: the name of a communicator's group, "server 0".
  std::string track{};
  /// The operation of the span on that track, such as "all_reduce"; a constant.
  std::string_view operation{};
  /// The bytes that are moved or processed; of a collective those of the whole array.
  std::int64_t bytes = 0;
  /// The number of the operation among those of its track, from 1.
  std::int64_t sequence = 0;
  /// Arrows: spans that have a number in common follow from each other in the order in which they
  /// begin. Numbers above 0 are of this rank (Timeline::new_flow), those below 0 of the whole run.
  std::vector<std::int64_t> flows{};
};

/// One span, as a rank reports it.
struct Slice {
  std::string activity;  // or the category of a span that counts for no activity
  std::string name;      // "forward block.3"
  double begin_s = 0;    // on the device's clock
  double duration_s = 0;
  /// As in SpanNote.
  std::string track{}, operation{};
  std::int64_t bytes = 0, sequence = 0;
  std::vector<std::int64_t> flows{};
};

/// The use of each kind of memory from a moment on.
struct MemorySample {
  double at_s = 0;
  MemoryUse use;
};

/// The use of memory by the ledger, from `begin_s` on. Changes of less than a part in 500 of the
/// largest total are left out until a larger one follows; the first and the last moment and that of
/// the largest total are kept.
std::vector<MemorySample> memory_samples(const std::vector<Ledger::Change>& changes,
                                         double begin_s);

Fields fields_of(Slice& slice);
Fields fields_of(MemorySample& sample);

}  // namespace ringside
