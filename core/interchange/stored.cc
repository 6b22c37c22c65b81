#include "core/interchange/stored.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace ringside {

MappedFile::MappedFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw Error("{}: {}", path, std::strerror(errno));
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    throw Error("{}: not a file", path);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  const int error = errno;
  close(file);
  if (data == MAP_FAILED) throw Error("{}: {}", path, std::strerror(error));
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::optional<DType> parameter_dtype_of(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    if (stored_name_of(dtype) == name) return dtype;
  return {};
}

std::string_view stored_name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    default:
      throw Error("parameters of {} cannot be stored: there are fp32, bf16 and fp16",
                  name_of(dtype));
  }
}

std::string text_of(const std::vector<std::int64_t>& extents) {
  return extents.empty() ? "scalar" : fmt::format("{}", fmt::join(extents, "x"));
}

}  // namespace ringside
