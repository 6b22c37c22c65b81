// Text for tests.
#pragma once

#include <string>

namespace ringside::testing {

/// Text in which words follow one another in a pattern, so that a model can learn something.
inline std::string some_text(std::size_t bytes) {
  const char* words[] = {"ring ", "tree ", "shard ", "bucket ", "rank ", "gather\n", "reduce "};
  std::string text;
  for (std::size_t i = 0; text.size() < bytes; ++i) text += words[(i * i + i / 7) % 7];
  text.resize(bytes);
  return text;
}

}  // namespace ringside::testing
