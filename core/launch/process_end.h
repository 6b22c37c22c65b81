// The end of a forked process, and its description in words.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace ringside {

/// The status of a child that has ended; none if that takes longer than `timeout_s` (negative: no
/// limit), or if there is no such child.
std::optional<int> wait_for_process(pid_t process, double timeout_s);

/// Why a process ended, by its status from waitpid(): "signal 9 (Killed)", "exit code 1".
std::string words_for_end(int status);

}  // namespace ringside
