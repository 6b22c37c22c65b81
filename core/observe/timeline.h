// The timeline of a rank: its activities, and when each began and ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"
#include "core/device/device.h"
#include "core/observe/slice.h"

namespace ringside {

/// The kinds of activity. `exposed`: the rank's main thread waits for communication.
/// `communication`: communication is under way, whether or not the main thread waits for it.
/// `encoding`: conversion between values and messages.
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
  ~Timeline() { trace(false); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Adds a span that lasts from the construction of this object to its destruction.
  class Scope {
   public:
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class Timeline;
    Scope(Timeline* timeline, std::optional<Activity> activity, std::string_view category,
          std::string name, SpanNote note);

    Timeline* timeline_;  // null: nothing is added
    std::optional<Activity> activity_;
    std::string_view category_;
    std::string name_;
    SpanNote note_;
    Mark begin_;
  };
  [[nodiscard]] Scope scope(Activity activity, std::string name, SpanNote note = {}) {
    return {this, activity, name_of(activity), std::move(name), std::move(note)};
  }
  void add(Activity activity, std::string name, Mark begin, Mark end, SpanNote note = {});
  Mark now() { return device_.mark(); }

  /// Whether the rank waits for others: a scope of Activity::exposed has not ended.
  bool waits() const { return waits_.load(std::memory_order_relaxed) > 0; }

  void begin_step();
  void end_step();

  /// The steps, in order. Time counts for the step in which it passed, whichever step a span began
  /// in; time outside of steps is not counted.
  std::vector<StepTime> step_times() const;

  /// The seconds of an activity in the newest step whose spans have all been added up, a few steps
  /// before the present one; none in the first steps. Does not wait for the device.
  std::optional<double> settled(Activity activity) const;

  /// When spans of the activity began and ended, in seconds since `from`, ascending and without
  /// overlaps; of those that began at `from` or later, in one of the last steps_with_spans steps.
  /// Waits for the device.
  std::vector<std::pair<double, double>> covered(Activity activity, const Mark& from) const;

  /// All members below are for traces alone, and cost nothing until trace(true) is called: spans of
  /// traced() and, with `memory`, changes of the device's memory are kept from then on. Of several
  /// timelines of one device, one follows its memory.
  void trace(bool on, bool memory = true);
  bool traces() const { return traces_.load(std::memory_order_relaxed); }
  /// Adds a span that counts for no activity. `category` is a constant; `name()` returns a string.
  template <class Name>
  [[nodiscard]] Scope traced(std::string_view category, const Name& name, SpanNote note = {}) {
    if (!traces()) return {nullptr, {}, category, {}, {}};
    return {this, {}, category, name(), std::move(note)};
  }
  /// Adds such a span, which ends now.
  void add_traced(std::string_view category, std::string name, Mark begin, SpanNote note);
  /// A new number for SpanNote::flows.
  std::int64_t new_flow() { return ++flows_; }

  /// Spans are kept for this many steps, the last ones of the run so far.
  static constexpr std::size_t steps_with_spans = 4;
  /// Returns the kept spans that began within step `first_step` or later, and these steps
  /// themselves, for a trace.
  std::vector<Slice> slices(std::int64_t first_step) const;
  /// Returns the use of the device's memory from the beginning of that step on, if it was kept.
  std::vector<MemorySample> memory(std::int64_t first_step) const;
  /// The number of the first step whose spans are all kept.
  std::int64_t first_kept_step() const;

 private:
  struct Span {
    std::optional<Activity> activity;
    std::string_view category;
    std::string name;
    Mark begin, end;
    SpanNote note;
  };

  /// The totals of spans that have been added up.
  struct Sums {
    std::vector<StepTime> steps;
    double covered_to[activities] = {};  // latest end, in seconds since the first step
  };
  void add(Span span);
  void add_up_old_spans();
  void add_up(std::span<const Span> spans, Sums& sums) const;
  /// Index of the first step that ends more than `seconds` after `origin`.
  std::size_t step_at(double seconds, Mark origin) const;

  Device& device_;
  bool follows_memory_ = false;
  std::atomic<int> waits_{0};
  std::atomic<bool> traces_{false};
  std::atomic<std::int64_t> flows_{0};
  mutable std::mutex mutex_;
  std::vector<std::pair<Mark, Mark>> steps_;
  std::vector<Span> spans_;
  Sums summed_;
};

}  // namespace ringside
