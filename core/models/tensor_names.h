// The names and layouts that other programs use for the parameters of a model.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/models/model.h"

namespace ringside {

/// One tensor of a file, and the part of the model that it holds: elements [begin, begin +
/// shape.count()) of a unit's range, or a statistic of the unit. That part has extents `shape`;
/// its element (i, j, ..) is element i * strides[0] + j * strides[1] + .. of the file's tensor.
struct NamedTensor {
  enum class Source : std::uint8_t {
    parameter,
    statistic,  // elements of a running statistic
    counter     // how often PyTorch updated a statistic; written, but never read
  };
  std::string name{};
  std::vector<std::int64_t> extents{};  // in the file
  Source source = Source::parameter;
  std::size_t unit = 0;
  std::size_t statistic = 0;  // index in the unit's list; for statistics and counters
  std::int64_t begin = 0;
  Shape shape{};
  std::array<std::int64_t, Shape::max_rank> strides{};
  /// Whether the tensor has a row for each token. In files such a tensor may have additional rows,
  /// up to the next multiple of 128.
  bool tokens = false;
};

/// The names of all tensors of a model, and of other tensors that its files may have.
struct Names {
  std::vector<NamedTensor> tensors{};
  /// A prefix that files may leave out of the names of their tensors.
  std::string prefix{};
  /// A second name that files may have for tensors[tensor], because the model ties two layers to
  /// it. Ringside never writes this name. If a file has both, their values must be the same.
  struct Tie {
    std::string name;
    std::size_t tensor;
  };
  std::vector<Tie> ties{};
  /// A new ending of names, and `once`, the old ending that some files still have.
  struct Renamed {
    std::string ending, once;
  };
  std::vector<Renamed> renamed{};
  /// Endings of names that old programs wrote for tensors that are not parameters, such as masks
  /// and positions.
  std::vector<std::string> ignored{};
};

namespace naming {

/// The order in which a file stores a parameter, which in Ringside is row-major.
enum class Order : std::uint8_t {
  same,
  transposed,      // [in, out] in the file, [out, in] in Ringside
  channels_first,  // [K, C, R, S] in the file, [K, R, S, C] in Ringside
  joined_columns,  // [K, R * S * C] in the file, [K, R, S, C] in Ringside
  tokens           // as `same`, but the file may have more rows
};

/// The name in the file for a unit's parameter. A '*' in `unit` stands for a number, which replaces
/// the '*' in `name`. If files divide the rows of a parameter among several tensors, this rule
/// names the tensor with `count` of its `parts` equal parts, from number `part` on.
struct Rule {
  std::string_view unit, parameter, name;
  Order order = Order::same;
  std::int64_t part = 0, parts = 1, count = 1;
};

/// Tensors that rules name. Throws Error for a parameter without a rule.
std::vector<NamedTensor> by_rules(const Model& model, std::span<const Rule> rules);

/// Tensors of a plain network whose parameters have torchvision's names. In Ringside the columns of
/// the first linear layer, whose weight is called `first_linear`, are ordered by position, then
/// channel; in torchvision by channel, then position. An image has `channels`.
std::vector<NamedTensor> torchvision_layers(const Model& model, std::int64_t channels,
                                            std::string_view first_linear);

/// Tensors of a network of blocks: "UNIT.PARAMETER" is torchvision's name. Stem and head are no
/// modules in torchvision: for them the name is "PARAMETER" alone.
std::vector<NamedTensor> torchvision_modules(const Model& model);

/// The position in names.tensors of the tensor `name`; throws Error if there is none.
std::size_t index_of(const Names& names, std::string_view name);

}  // namespace naming
}  // namespace ringside
