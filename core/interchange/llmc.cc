#include "core/interchange/llmc.h"

#include <array>
#include <cstring>

#include "core/base/error.h"
#include "core/models/model_defaults.h"

namespace ringside {
namespace {

constexpr std::int32_t magic = 20240326;
constexpr std::size_t header_numbers = 256, header_bytes = 4 * header_numbers;
/// With larger values a product below could overflow.
constexpr std::int64_t most_layers = 1 << 16, largest_extent = 1 << 24;

using HeaderNumbers = std::array<std::int32_t, header_numbers>;

constexpr naming::Rule llmc_rules[] = {
    {"embedding", "table.tokens", "wte", naming::Order::tokens},
    {"embedding", "table.positions", "wpe"},
    {"block.*", "norm1.weight", "ln1w.*"},
    {"block.*", "norm1.bias", "ln1b.*"},
    {"block.*", "attention.qkv.weight", "qkvw.*"},
    {"block.*", "attention.qkv.bias", "qkvb.*"},
    {"block.*", "attention.out.weight", "attprojw.*"},
    {"block.*", "attention.out.bias", "attprojb.*"},
    {"block.*", "norm2.weight", "ln2w.*"},
    {"block.*", "norm2.bias", "ln2b.*"},
    {"block.*", "mlp.in.weight", "fcw.*"},
    {"block.*", "mlp.in.bias", "fcb.*"},
    {"block.*", "mlp.out.weight", "fcprojw.*"},
    {"block.*", "mlp.out.bias", "fcprojb.*"},
    {"head", "norm.weight", "lnfw"},
    {"head", "norm.bias", "lnfb"},
};

struct Sizes {
  std::int64_t positions, vocabulary, layers, heads, width, rows;
};

class Checked {
 public:
  Checked(const std::string& path, const HeaderNumbers& header) : path_(path), header_(header) {}

  std::int64_t number(std::size_t index, std::string_view what, std::int64_t largest) const {
    const std::int64_t value = header_[index];
    if (value < 1 || value > largest)
      throw Error("{}: byte {}: the number of {} is {}, but it must lie between 1 and {}", path_,
                  4 * index, what, value, largest);
    return value;
  }
  void expect(std::size_t index, std::string_view what, std::int64_t wanted,
              std::string_view key) const {
    if (header_[index] != wanted)
      throw Error("{}: byte {}: the model in the file has {} {}, but {} = {}", path_, 4 * index,
                  header_[index], what, key, wanted);
  }

 private:
  const std::string& path_;
  const HeaderNumbers& header_;
};

/// Cuts the file's bytes into tensors. An array over all layers becomes one tensor for each layer;
/// `layers` is 0 for an array that belongs to no layer.
class Cutter {
 public:
  Cutter(StoredTensors& out, std::span<const std::byte> bytes, std::string dtype,
         std::size_t element_bytes)
      : out_(out), bytes_(bytes), dtype_(std::move(dtype)), element_bytes_(element_bytes) {}

  void take(const std::string& name, std::int64_t layers,
            const std::vector<std::int64_t>& extents) {
    std::size_t size = element_bytes_;
    for (const std::int64_t extent : extents) size *= static_cast<std::size_t>(extent);
    for (std::int64_t layer = 0; layer < std::max<std::int64_t>(1, layers); ++layer) {
      const std::string full = layers > 0 ? fmt::format("{}.{}", name, layer) : name;
      if (bytes_.size() - at_ < size)
        throw Error(
            "{}: byte {}: tensor {} begins here and needs {} bytes, but the file ends at byte {}",
            out_.path, at_, full, size, bytes_.size());
      out_.tensors[full] = {dtype_, extents, bytes_.subspan(at_, size), out_.path};
      at_ += size;
    }
  }
  void finish() const {
    if (at_ != bytes_.size())
      throw Error("{}: byte {}: the model ends here, but the file ends at byte {}", out_.path, at_,
                  bytes_.size());
  }

 private:
  StoredTensors& out_;
  std::span<const std::byte> bytes_;
  std::string dtype_;
  std::size_t element_bytes_, at_ = header_bytes;
};

Sizes check_header(const std::string& path, const HeaderNumbers& header,
                   const ModelConfig& config) {
  const Checked checked(path, header);
  if (header[1] != 3 && header[1] != 5)
    throw Error("{}: byte 4: version {}, but only 3 (fp32) and 5 (bf16) can be read", path,
                header[1]);
  const Sizes sizes{.positions = checked.number(2, "positions", largest_extent),
                    .vocabulary = checked.number(3, "tokens", largest_extent),
                    .layers = checked.number(4, "layers", most_layers),
                    .heads = checked.number(5, "heads", largest_extent),
                    .width = checked.number(6, "channels", largest_extent),
                    .rows = checked.number(7, "rows of tokens", largest_extent)};
  if (sizes.rows < sizes.vocabulary)
    throw Error("{}: byte 28: the table of tokens has {} rows, but the vocabulary has {} tokens",
                path, sizes.rows, sizes.vocabulary);
  checked.expect(2, "positions", rows_of_positions(config), "model.positions");
  checked.expect(3, "tokens", config.vocabulary, "model.vocabulary");
  checked.expect(4, "layers", config.layers, "model.layers");
  checked.expect(5, "heads", config.heads, "model.heads");
  checked.expect(6, "channels", config.width, "model.width");
  return sizes;
}

/// Files of llm.c are of GPT-2 as it was published; their header does not say it.
void check_published(const std::string& path, const ModelConfig& config) {
  const ModelConfig there = completed({.kind = "gpt"}), here = completed(config);
  const auto refuse = [&](std::string_view key, const auto& theirs, const auto& ours) {
    throw Error("{}: llm.c computes with {} = {}, but model.{} = {}", path, key, theirs, key, ours);
  };
  if (here.epsilon != there.epsilon) refuse("epsilon", there.epsilon, here.epsilon);
  if (here.activation != there.activation)
    refuse("activation", name_of(there.activation), name_of(here.activation));
}

}  // namespace

bool is_llmc_model(const std::string& path) {
  const auto file = map_weights(path);
  std::int32_t number = 0;
  if (file->bytes().size() < sizeof number) return false;
  std::memcpy(&number, file->bytes().data(), sizeof number);
  return number == magic;
}

StoredTensors open_llmc_model(const std::string& path, const ModelConfig& config) {
  StoredTensors out;
  out.path = path;
  const auto file = map_weights(path);
  out.files.push_back(file);
  if (file->bytes().size() < header_bytes)
    throw Error("{}: byte {}: the file ends within its header of {} bytes", path,
                file->bytes().size(), header_bytes);
  HeaderNumbers header;
  std::memcpy(header.data(), file->bytes().data(), header_bytes);
  if (header[0] != magic)
    throw Error("{}: byte 0: magic number {}, but model files of llm.c have {}", path, header[0],
                magic);
  const auto [positions, vocabulary, layers, heads, c, rows] = check_header(path, header, config);
  check_published(path, config);

  const bool single = header[1] == 3;
  Cutter cutter(out, file->bytes(), single ? "F32" : "BF16", single ? 4 : 2);
  cutter.take("wte", 0, {rows, c});
  cutter.take("wpe", 0, {positions, c});
  cutter.take("ln1w", layers, {c});
  cutter.take("ln1b", layers, {c});
  cutter.take("qkvw", layers, {3 * c, c});
  cutter.take("qkvb", layers, {3 * c});
  cutter.take("attprojw", layers, {c, c});
  cutter.take("attprojb", layers, {c});
  cutter.take("ln2w", layers, {c});
  cutter.take("ln2b", layers, {c});
  cutter.take("fcw", layers, {4 * c, c});
  cutter.take("fcb", layers, {4 * c});
  cutter.take("fcprojw", layers, {c, 4 * c});
  cutter.take("fcprojb", layers, {c});
  cutter.take("lnfw", 0, {c});
  cutter.take("lnfb", 0, {c});
  cutter.finish();
  return out;
}

Names llmc_names_of(const Model& model) {
  if (!model.units.back()->lender())
    throw Error("model files of llm.c use one table for embedding and head; set model.tied = true");
  return {.tensors = naming::by_rules(model, llmc_rules)};
}

}  // namespace ringside
