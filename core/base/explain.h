// What the system refused, for errors that say too little of it.
#pragma once

#include <exception>
#include <string>

namespace ringside {

/// error.what(), and where the system refused something, the limit that it looks like.
std::string explain(const std::exception& error);

/// The limit of this process that `cause` (a text with one of the system's errors in it), or the
/// signal that ended a process (0: none did), looks like: "; memory is limited to 512 MB (ulimit
/// -v)"; empty for none.
std::string limit_hint(const std::string& cause, int signal = 0);

}  // namespace ringside
