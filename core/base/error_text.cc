#include "core/base/error_text.h"

#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <system_error>

#include "core/base/error.h"

namespace ringside {
namespace {

std::optional<rlim_t> limit_of(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

std::string limit_text(std::string_view what, decltype(RLIMIT_AS) resource, rlim_t unit,
                       std::string_view shown) {
  const auto limit = limit_of(resource);
  return limit ? fmt::format("; {} limited to {} {}", what, *limit / unit, shown) : "";
}

/// The possible reasons why the system refuses a thread. The system gives the same error for too
/// many threads and for a stack that gets no memory.
std::string thread_limit_text() {
  const auto limit = limit_of(RLIMIT_NPROC);
  const std::string number = limit ? fmt::format(" ({} with ulimit -u)", *limit) : "";
  const std::string memory = memory_limit_hint();
  return fmt::format(
      "{}this user has as many processes and threads as the limit allows{}: end other processes, "
      "or raise the limit",
      memory.empty() ? "" : "its stack may not fit" + memory + "; or ", number);
}

}  // namespace

std::string memory_limit_hint() {
  const auto all = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
  if (data && (!all || *data < *all))
    return limit_text("memory is", RLIMIT_DATA, 1'000'000, "MB (ulimit -d)");
  return limit_text("memory is", RLIMIT_AS, 1'000'000, "MB (ulimit -v)");
}

std::string limit_hint(const std::string& cause, int signal) {
  const auto is = [&](int error) { return cause.find(std::strerror(error)) != std::string::npos; };
  if (is(EAGAIN)) return "; a thread or process could not be started: " + thread_limit_text();
  if (is(EMFILE)) return limit_text("open files are", RLIMIT_NOFILE, 1, "(ulimit -n)");
  // Memory that ranks share is a file, so limits of files apply to it.
  if (is(EFBIG)) return limit_text("files are", RLIMIT_FSIZE, 1'000, "KB (ulimit -f)");
  // A library may crash because it uses memory that it asked for and did not get.
  if (is(ENOMEM) || signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS)
    return memory_limit_hint();
  return {};
}

std::string error_text(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return fmt::format("there is no memory left{}; use a smaller model or batch, or fewer ranks",
                       memory_limit_hint());
  const auto* refused = dynamic_cast<const std::system_error*>(&error);
  if (refused && refused->code() == std::errc::resource_unavailable_try_again)
    return fmt::format("a thread could not be started: {}; {}", std::strerror(EAGAIN),
                       thread_limit_text());
  const std::string what = error.what();
  return what.find("ulimit") == std::string::npos ? what + limit_hint(what) : what;
}

}  // namespace ringside
