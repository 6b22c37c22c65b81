// Quoting of words in commands that a user copies or a shell reads.
#pragma once

#include <string>

namespace ringside {

/// The word between quotes, so that a shell reads exactly its characters.
std::string quoted(const std::string& word);

/// The word for a command in a message: as it is where a shell reads it so, else between quotes.
std::string shell_word(const std::string& word);

}  // namespace ringside
