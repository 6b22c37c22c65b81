// What a rank did, and when.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"
#include "core/device/device.h"

namespace ringside {

/// What a span of time was spent on. `exposed`: the rank's main thread waits for communication.
/// `communication`: communication is under way, whether or not the main thread waits for it.
/// `encoding`: making what is sent out of values, or values out of what was received.
enum class Activity : std::uint8_t { compute, communication, exposed, optimizer, data, encoding };
inline constexpr std::size_t activities = 6;
inline constexpr std::string_view activity_names[activities] = {
    "compute", "communication", "exposed", "optimizer", "data", "encoding"};
constexpr EnumNames names_of(Activity) { return activity_names; }

/// Seconds of one step by activity. Spans of one activity may overlap (several messages in flight);
/// the time during which there is at least one span is counted once.
struct StepTime {
  double total = 0;
  double by_activity[activities] = {};
};

/// Collects spans of one rank. Thread-safe.
class Timeline {
 public:
  explicit Timeline(Device& device) : device_(device) {}

  /// Adds a span that lasts from the construction of this object to its destruction.
  class Scope {
   public:
    Scope(Timeline& timeline, Activity activity, std::string name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Timeline& timeline_;
    Activity activity_;
    std::string name_;
    Mark begin_;
  };
  [[nodiscard]] Scope scope(Activity activity, std::string name) {
    return {*this, activity, std::move(name)};
  }

  void add(Activity activity, std::string name, Mark begin, Mark end);
  Mark now() { return device_.mark(); }

  void begin_step();
  void end_step();

  /// The steps, in order. Time counts for the step in which it passed, whichever step a span began
  /// in; time outside of steps is not counted.
  std::vector<StepTime> step_times() const;

  /// Spans are kept for this many steps, the last ones of the run so far.
  static constexpr std::size_t steps_with_spans = 4;
  struct Slice {
    std::string activity;
    std::string name;  // "forward block.3"
    double begin_s;    // on the device's clock
    double duration_s;
  };
  /// Returns the kept spans that began within step `first_step` or later, for a trace.
  std::vector<Slice> slices(std::int64_t first_step) const;

 private:
  struct Span {
    Activity activity;
    std::string name;
    Mark begin, end;
  };

  /// The totals of spans that have been added up.
  struct Sums {
    std::vector<StepTime> steps;
    double covered_to[activities] = {};  // latest end, in seconds since the first step
  };
  void add_up_old_spans();
  void add_up(std::span<const Span> spans, Sums& sums) const;
  /// Index of the first step that ends more than `seconds` after `origin`.
  std::size_t step_at(double seconds, Mark origin) const;

  Device& device_;
  mutable std::mutex mutex_;
  std::vector<std::pair<Mark, Mark>> steps_;
  std::vector<Span> spans_;
  Sums summed_;
};

}  // namespace ringside
