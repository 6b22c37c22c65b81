#include "experiments/tools/chakra/trace_files.h"

#include "core/base/error.h"

namespace ringside::tools::chakra {

void write_files(const Run&, const std::filesystem::path&, const std::string&) {
  throw Error(
      "this program was built without protobuf, which Chakra traces are written with; install "
      "libprotobuf-dev and protobuf-compiler, and build anew");
}

}  // namespace ringside::tools::chakra
