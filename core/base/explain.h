// Explanations for errors of the operating system that say too little.
#pragma once

#include <exception>
#include <string>

namespace ringside {

/// error.what() and, if the system refused something, the limit that is the likely cause.
std::string explain(const std::exception& error);

/// The limit of this process that is the likely reason for `cause` (a text that contains an error
/// of the system), or for the `signal` that ended a process (0: no signal). For instance "; memory
/// is limited to 512 MB (ulimit -v)"; empty if no limit fits.
std::string limit_hint(const std::string& cause, int signal = 0);

/// The limit of this process's memory in the same form; empty if memory is not limited.
std::string memory_limit_hint();

}  // namespace ringside
