// The end of a forked process, and its description in words.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace ringside {

/// The status of a child that has ended; none if that takes longer than `timeout_s` (negative: no
/// limit), or if there is no such child.
std::optional<int> wait_for_process(pid_t process, double timeout_s);

/// The end of a process in words, from the status of waitpid(): "signal 9 (Killed)", "exit code 1".
std::string words_for_end(int status);

}  // namespace ringside
