#include "core/interchange/stored.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/data/file_format.h"

namespace ringside {

MappedFile::MappedFile(const std::string& path) : file_(path, "train.initial_weights") {
  refuse_other_formats(file_);
  if (file_.size() == 0) return;
  void* address = ::mmap(nullptr, file_.size(), PROT_READ, MAP_SHARED, file_.descriptor(), 0);
  if (address == MAP_FAILED)
    throw Error("train.initial_weights: {} cannot be read: {}", path, std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), file_.size());
}

std::shared_ptr<const MappedFile> map_weights(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw Error("{}: there is no such file; name a file of weights in train.initial_weights", path);
  return std::make_shared<const MappedFile>(path);
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
      throw Error("parameters of {} cannot be stored; choose fp32, bf16 or fp16", name_of(dtype));
  }
}

std::string text_of(const std::vector<std::int64_t>& extents) {
  return extents.empty() ? "scalar" : fmt::format("{}", fmt::join(extents, "x"));
}

}  // namespace ringside
