// Explanations for terse errors of the operating system.
#pragma once

#include <exception>
#include <string>

namespace ringside {

/// Returns error.what(), or clearer words if there was no memory or no thread. If the system
/// refused something, the text also names the limit that is the likely cause.
std::string error_text(const std::exception& error);

/// Names the limit of this process that probably led to a failure, for instance "; memory is
/// limited to 512 MB (ulimit -v)"; empty if no limit fits. `cause` is the text of the failure,
/// which may contain an error of the system; `signal` is the signal that ended a process (0: none).
std::string limit_hint(const std::string& cause, int signal = 0);

/// The limit of this process's memory in the same form; empty if memory is not limited.
std::string memory_limit_hint();

}  // namespace ringside
