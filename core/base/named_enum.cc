#include "core/base/named_enum.h"

namespace ringside {

std::string one_of(EnumNames names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " or ";
    text += names[i];
  }
  return text;
}

}  // namespace ringside
