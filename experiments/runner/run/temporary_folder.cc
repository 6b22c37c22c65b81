#include "experiments/runner/run/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace ringside::runner {

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent) {
  std::string name = (parent / "ringside-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw Error("{}: this folder cannot be made: {}; set TMPDIR to one that can be written", name,
                std::strerror(errno));
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ringside::runner
