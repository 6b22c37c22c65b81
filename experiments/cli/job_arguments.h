// The options of commands that run under a launcher.
#pragma once

#include <string>

namespace ringside {

struct JobArguments {
  std::string keys{}, advertise{};
  double join_timeout_s = 60;
  int slots = 0;  // 0: as the launcher says
};

}  // namespace ringside
