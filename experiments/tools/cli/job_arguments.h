// The options of commands that run under a launcher, or that act as one.
#pragma once

#include <string>

namespace ringside {

struct JobArguments {
  std::string keys{};  // "-": from standard input
  std::string advertise{};
  double join_timeout_s = 60;
  int slots = 0;                     // 0: as the launcher says
  std::string hosts{}, ssh = "ssh";  // of `launch`
};

}  // namespace ringside
