// What a rank did when.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace ringside {

/// What a span of time was spent on. `exposed` is the rank's main thread waiting for
/// communication; `communication` is communication under way, waited for or hidden.
enum class Activity : std::uint8_t { compute, communication, exposed, optimizer, data };
inline constexpr std::size_t activities = 5;
std::string_view name_of(Activity activity);

struct Span {
  Activity activity;
  std::string name;  // "forward block.3"
  std::int64_t step;
  Mark begin, end;
};

/// Seconds of one step by activity. Spans of one activity may overlap (several messages in
/// flight): what counts is the time in which there is at least one.
struct StepTime {
  double total = 0;
  double by_activity[activities] = {};
};

/// Collects spans of one rank. Thread-safe.
class Timeline {
 public:
  explicit Timeline(Device& device) : device_(device) {}

  /// Records from its construction to its end.
  class Scope {
   public:
    Scope(Timeline& timeline, Activity activity, std::string name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Timeline& timeline_;
    Span span_;
  };
  [[nodiscard]] Scope scope(Activity activity, std::string name) {
    return {*this, activity, std::move(name)};
  }

  void add(Activity activity, std::string name, Mark begin, Mark end);
  Mark now() { return device_.mark(); }

  /// Later spans belong to `step`; a step lasts until the next begin_step() or finish().
  void begin_step(std::int64_t step);
  void finish();

  /// Steps that began, in order; to be called after finish().
  std::vector<StepTime> step_times() const;
  /// Spans of the steps from `first_step` on, and the step's own begin and end.
  std::vector<Span> spans(std::int64_t first_step) const;
  double seconds(Mark from, Mark to) { return device_.seconds(from, to); }

 private:
  Device& device_;
  mutable std::mutex mutex_;
  std::int64_t step_ = -1;
  std::vector<Mark> step_begins_;
  std::vector<Span> spans_;
};

}  // namespace ringside
