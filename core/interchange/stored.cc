#include "core/interchange/stored.h"

#include <filesystem>

#include "core/base/error.h"

namespace ringside {

std::shared_ptr<const MappedFile> map_weights(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error("{}: No such file; name a file of weights in train.initial_weights", path);
  return std::make_shared<const MappedFile>(path, "train.initial_weights");
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
