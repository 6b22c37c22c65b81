#include "core/interchange/stored.h"

#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/data/file_format.h"

namespace ringside {
namespace {

/// Parts of names that stand wherever a module was wrapped. DistributedDataParallel wraps only the
/// whole model; elsewhere "module" is a name that models give.
constexpr std::string_view wrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                         "_checkpoint_wrapped_module."};
constexpr std::string_view outermost = "module.";

std::string unwrapped(const std::string& name) {
  std::string out;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size() - 1) + 1;
    const std::string_view part = std::string_view(name).substr(at, end - at);
    if (std::find(std::begin(wrappers), std::end(wrappers), part) == std::end(wrappers))
      out += part;
    at = end;
  }
  while (out.starts_with(outermost)) out.erase(0, outermost.size());
  return out;
}

RegularFile opened_weights(const std::string& path) {
  RegularFile file(path, "train.initial_weights");
  refuse_other_formats(file);
  return file;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : MappedFile(opened_weights(path)) {}

MappedFile::MappedFile(RegularFile file) : file_(std::move(file)) {
  if (file_.size() == 0) return;
  void* address = ::mmap(nullptr, file_.size(), PROT_READ, MAP_SHARED, file_.descriptor(), 0);
  if (address == MAP_FAILED)
    throw Error("{}: {} cannot be read: {}", file_.setting(), file_.path().string(),
                std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), file_.size());
}

void remove_wrappers(StoredTensors& stored) {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> taken;  // the name in the file
  for (const auto& [name, tensor] : stored.tensors) {
    const std::string plain = unwrapped(name);
    if (const auto [other, is_new] = taken.emplace(plain, name); !is_new)
      throw Error(
          "{}: tensors '{}' and '{}' are both '{}' without the names of wrappers; leave one out",
          stored.path, other->second, name, plain);
    tensors.emplace(plain, tensor);
  }
  stored.tensors = std::move(tensors);
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
