#include "core/base/row_list.h"

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace ringside {

void no_such_row(std::string_view what, std::string_view name,
                 const std::vector<std::string>& known, bool takes_plugins) {
  throw Error("unknown {} '{}'; did you mean '{}'? There are: {}{}", what, name,
              nearest(name, known), fmt::join(known, ", "),
              takes_plugins ? "; those of a plug-in with --plugin FILE" : "");
}

void row_too_late(std::string_view what, std::string_view name) {
  throw Error("{} '{}' of a plug-in comes too late: the program has listed its {}s already", what,
              name, what);
}

void row_twice(std::string_view what, std::string_view name) {
  throw Error("there is a {} '{}' already; give the one of the plug-in another name", what, name);
}

}  // namespace ringside
