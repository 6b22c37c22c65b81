#include "core/interchange/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/untrusted_json.h"

namespace ringside {
namespace {

using nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;
/// Depth of {"name": {"shape": [1]}}: no valid header is deeper. An index may say more of a model
/// in its metadata.
constexpr std::size_t deepest_header = 3, deepest_index = 64;

struct ElementSize {
  std::string_view dtype;
  std::uint64_t bits;
};
/// All dtypes of the format.
constexpr ElementSize element_sizes[] = {
    {"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},
    {"I32", 32},    {"U32", 32}, {"F32", 32}, {"F64", 64},    {"I64", 64},
    {"U64", 64},    {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

class JsonHeader {
 public:
  JsonHeader(const std::string& path, std::span<const std::byte> data) : path_(path), data_(data) {}

  StoredTensor tensor(const std::string& name, const json& entry) {
    if (!entry.is_object()) refuse(name, "is not a JSON object");
    for (const auto& [key, value] : entry.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        refuse(name, fmt::format("has an unknown key '{}'", key));
    const json dtype = entry.value("dtype", json());
    const json shape = entry.value("shape", json());
    const json offsets = entry.value("data_offsets", json());
    if (!dtype.is_string()) refuse(name, "has no dtype");
    if (!shape.is_array()) refuse(name, "has no shape");
    if (!offsets.is_array() || offsets.size() != 2) refuse(name, "does not have two data_offsets");

    StoredTensor out;
    out.dtype = dtype.get<std::string>();
    out.file = path_;
    std::uint64_t bits = element_bits(name, out.dtype);
    bool nothing = false;
    for (const json& extent : shape) {
      const std::uint64_t n = number(name, extent);
      out.extents.push_back(static_cast<std::int64_t>(n));
      nothing = nothing || n == 0;
      if (n > 0 && bits > std::numeric_limits<std::uint64_t>::max() / n)
        refuse(name, "has a shape that is too large");
      bits *= std::max<std::uint64_t>(n, 1);
    }
    if (nothing) bits = 0;
    if (bits % 8 != 0)
      refuse(name, fmt::format("has {} bits in shape {} and dtype {}, which fill no whole bytes",
                               bits, text_of(out.extents), out.dtype));
    const std::uint64_t bytes = bits / 8;
    const std::uint64_t begin = number(name, offsets[0]), end = number(name, offsets[1]);
    if (begin > end || end > data_.size())
      refuse(name, fmt::format("has data_offsets [{}, {}] that do not lie within {} bytes", begin,
                               end, data_.size()));
    if (end - begin != bytes)
      refuse(name,
             fmt::format("has {} bytes at data_offsets [{}, {}], but a tensor of shape {} and "
                         "dtype {} needs {} bytes",
                         end - begin, begin, end, text_of(out.extents), out.dtype, bytes));
    out.bytes = data_.subspan(begin, bytes);
    ranges_.push_back({begin, end, name});
    return out;
  }

  /// Checks that the tensors cover the data without gaps or overlaps.
  void check_cover() {
    std::sort(ranges_.begin(), ranges_.end());
    std::uint64_t at = 0;
    for (const auto& [begin, end, name] : ranges_) {
      if (begin < at) refuse(name, fmt::format("overlaps another tensor at byte {}", begin));
      if (begin > at)
        refuse(name, fmt::format("begins at byte {}: {} bytes before it belong to no tensor", begin,
                                 begin - at));
      at = end;
    }
    if (at != data_.size())
      throw Error("{}: {} bytes at the end belong to no tensor", path_, data_.size() - at);
  }

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const {
    throw Error("{}: tensor '{}' {}", path_, name, why);
  }

  std::uint64_t number(const std::string& name, const json& value) const {
    if (!value.is_number_unsigned() ||
        value.get<std::uint64_t>() >
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      refuse(name, fmt::format("has {} where a count is expected", value.dump()));
    return value.get<std::uint64_t>();
  }

  std::uint64_t element_bits(const std::string& name, const std::string& dtype) const {
    for (const ElementSize& size : element_sizes)
      if (size.dtype == dtype) return size.bits;
    refuse(name, fmt::format("has the unknown dtype '{}'", dtype));
  }

  struct Range {
    std::uint64_t begin, end;
    std::string name;
    auto operator<=>(const Range&) const = default;
  };

  const std::string& path_;
  std::span<const std::byte> data_;
  std::vector<Range> ranges_;
};

std::map<std::string, std::string> metadata_of(const std::string& path, const json& metadata) {
  const bool strings =
      metadata.is_object() && std::all_of(metadata.begin(), metadata.end(),
                                          [](const json& value) { return value.is_string(); });
  if (!strings) throw Error("{}: __metadata__ must be an object whose values are strings", path);
  return metadata.get<std::map<std::string, std::string>>();
}

bool is_index(const std::string& path) { return path.ends_with(".index.json"); }

/// Returns the file of each tensor.
std::map<std::string, std::string> read_index(const std::string& path) {
  const auto file = map_weights(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  const json index = parse_json(path, text, deepest_index);
  const json map = index.is_object() ? index.value("weight_map", json()) : json();
  if (!map.is_object() || map.empty()) throw Error("{}: the index has no weight_map", path);
  std::map<std::string, std::string> out;
  for (const auto& [name, where] : map.items()) {
    const auto file_name = where.is_string() ? where.get<std::string>() : std::string();
    if (file_name.empty() || file_name.find('/') != std::string::npos || file_name == "..")
      throw Error("{}: tensor '{}' is in {}, which is not the name of a file in this folder", path,
                  name, where.dump());
    out[name] = file_name;
  }
  return out;
}

void add_file(StoredTensors& out, const std::string& path) {
  auto file = map_weights(path);
  ParsedSafetensors parsed = parse_safetensors(path, file->bytes());
  out.metadata.merge(parsed.metadata);
  for (auto& [name, tensor] : parsed.tensors)
    if (!out.tensors.emplace(name, tensor).second)
      throw Error("{}: tensor '{}' occurs in {} as well", path, name, out.tensors[name].file);
  out.files.push_back(std::move(file));
}

}  // namespace

ParsedSafetensors parse_safetensors(const std::string& path, std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length)
    throw Error("{}: a file of {} bytes is too short for safetensors", path, bytes.size());
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > longest_header || length > bytes.size() - sizeof length)
    throw Error(
        "{}: a header of {} bytes does not fit into a file of {} bytes; the file is not "
        "safetensors, or was cut off",
        path, length, bytes.size());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof length, length);
  const json header = parse_json(path, text, deepest_header);
  if (!header.is_object()) throw Error("{}: the header is not a JSON object", path);

  JsonHeader reader(path, bytes.subspan(sizeof length + length));
  ParsedSafetensors out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__")
      out.metadata = metadata_of(path, entry);
    else
      out.tensors.emplace(name, reader.tensor(name, entry));
  }
  reader.check_cover();
  return out;
}

std::vector<std::string> safetensors_files(const std::string& path) {
  if (!is_index(path)) return {path};
  std::set<std::string> files = {path};
  for (const auto& [name, file] : read_index(path))
    files.insert((std::filesystem::path(path).parent_path() / file).string());
  return {files.begin(), files.end()};
}

StoredTensors open_safetensors(const std::string& path) {
  StoredTensors out;
  out.path = path;
  if (!is_index(path)) {
    add_file(out, path);
    return out;
  }
  const auto index = read_index(path);
  const auto folder = std::filesystem::path(path).parent_path();
  std::set<std::string> files;
  for (const auto& [name, file] : index)
    if (files.insert(file).second) add_file(out, (folder / file).string());
  for (const auto& [name, file] : index) {
    const auto tensor = out.tensors.find(name);
    if (tensor == out.tensors.end() || tensor->second.file != (folder / file).string())
      throw Error("{}: tensor '{}' is not in {}", path, name, file);
  }
  for (const auto& [name, tensor] : out.tensors)
    if (!index.contains(name))
      throw Error("{}: weight_map does not list tensor '{}' of {}", path, name, tensor.file);
  return out;
}

}  // namespace ringside
