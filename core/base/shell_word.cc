#include "core/base/shell_word.h"

#include <string_view>

namespace ringside {

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  const bool safe = !word.empty() && word.find_first_not_of(plain) == std::string::npos;
  return safe ? word : quoted(word);
}

}  // namespace ringside
