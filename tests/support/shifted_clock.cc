// A library for LD_PRELOAD: the time of day jumps in the middle of a program, and no other clock.
//
// RINGSIDE_CLOCK_JUMP="AFTER BY": AFTER seconds after its start a process reads a time of day that
// is BY seconds ahead, or behind. Whatever waits until a time of day then waits wrongly.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>

namespace {

using ClockGettime = int (*)(clockid_t, timespec*);

int original(clockid_t clock, timespec* out) {
  static const auto get = reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  return get(clock, out);
}

double steady() {
  timespec now{};
  original(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

const double begun = steady();

/// By how many seconds the time of day is shifted now.
time_t shift() {
  static const struct Jump {
    double after = 0;
    long by = 0;
    Jump() {
      const char* text = std::getenv("RINGSIDE_CLOCK_JUMP");
      if (!text || std::sscanf(text, "%lf %ld", &after, &by) != 2) by = 0;
    }
  } jump;
  return steady() - begun > jump.after ? jump.by : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const int result = original(clock, out);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    out->tv_sec += shift();
  return result;
}

int gettimeofday(timeval* out, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
}
