// The end of a process, described in words.
#pragma once

#include <string>

namespace ringside {

/// The end of a process in words, from the status of waitpid(): "signal 9 (Killed)", "exit code 1".
std::string words_for_end(int status);

}  // namespace ringside
