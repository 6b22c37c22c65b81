#include "core/interchange/matched_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"

namespace ringside {
namespace {

/// Other programs pad the table of tokens to a multiple of this number of rows.
constexpr std::int64_t padded_to = 128;
/// Number of items that are listed for each kind of fault; the others are only counted.
constexpr std::size_t most_listed = 8;

std::string listed(const std::vector<std::string>& items, std::string_view what) {
  if (items.empty()) return {};
  const auto shown = std::min(items.size(), most_listed);
  std::string out = fmt::format(
      "; {}: {}", what, fmt::join(items.begin(), items.begin() + std::ptrdiff_t(shown), ", "));
  if (shown < items.size()) out += fmt::format(" and {} more", items.size() - shown);
  return out;
}

bool same_extents(const NamedTensor& tensor, const std::vector<std::int64_t>& stored) {
  if (!tensor.tokens || stored.size() != tensor.extents.size()) return stored == tensor.extents;
  return is_padded(tensor.extents[0], stored[0]) &&
         std::equal(stored.begin() + 1, stored.end(), tensor.extents.begin() + 1);
}

class Fitting {
 public:
  Fitting(const StoredTensors& file, const Model& model, const Names& names)
      : file_(file), model_(model), names_(names) {}

  std::vector<const StoredTensor*> run() {
    for (const NamedTensor& tensor : names_.tensors) find(tensor);
    for (const Names::Tie& tie : names_.ties) check(tie);
    for (const auto& [name, tensor] : file_.tensors)
      if (!used_.contains(&tensor) && !is_ignored(name)) unknown_.push_back(name);
    const std::string faults =
        listed(missing_, "missing") + listed(different_, "different") + listed(unknown_, "unknown");
    if (!faults.empty())
      throw Error(
          "{}: the file does not fit this model{}; choose the [model] that the file was made for",
          file_.path, faults);
    return found_;
  }

 private:
  /// Looks for `name`, then for the names that such a tensor once had (names_.renamed), then for
  /// `name` without names_.prefix. Returns null if the file has none of them.
  const StoredTensor* look_up(const std::string& name) {
    auto at = file_.tensors.find(name);
    for (const auto& [ending, once] : names_.renamed)
      if (at == file_.tensors.end() && name.ends_with(ending))
        at = file_.tensors.find(name.substr(0, name.size() - ending.size()) + once);
    if (at == file_.tensors.end() && !names_.prefix.empty() && name.starts_with(names_.prefix))
      at = file_.tensors.find(name.substr(names_.prefix.size()));
    if (at == file_.tensors.end()) return nullptr;
    used_.insert(&at->second);
    return &at->second;
  }

  void find(const NamedTensor& tensor) {
    const StoredTensor* stored = look_up(tensor.name);
    found_.push_back(stored);
    if (tensor.source == NamedTensor::Source::counter) return;
    const std::string place =
        fmt::format("{} (unit {})", tensor.name, model_.units[tensor.unit]->name());
    if (!stored)
      missing_.push_back(place);
    else if (!parameter_dtype_of(stored->dtype))
      different_.push_back(fmt::format("{} is {}, not F32, BF16 or F16", place, stored->dtype));
    else if (!same_extents(tensor, stored->extents))
      different_.push_back(fmt::format("{} is {}, not {}", place, text_of(stored->extents),
                                       text_of(tensor.extents)));
  }

  void check(const Names::Tie& tie) {
    const StoredTensor* tied = look_up(tie.name);
    const StoredTensor* other = found_[tie.tensor];
    if (!tied || !other) return;
    if (tied->dtype != other->dtype || tied->extents != other->extents ||
        !std::equal(tied->bytes.begin(), tied->bytes.end(), other->bytes.begin()))
      different_.push_back(
          fmt::format("{} differs from {}, but in this model the two are the same parameter",
                      tie.name, names_.tensors[tie.tensor].name));
  }

  bool is_ignored(const std::string& name) const {
    return std::any_of(names_.ignored.begin(), names_.ignored.end(),
                       [&](const std::string& ending) { return name.ends_with(ending); });
  }

  const StoredTensors& file_;
  const Model& model_;
  const Names& names_;
  std::vector<const StoredTensor*> found_;
  std::set<const StoredTensor*> used_;
  std::vector<std::string> missing_, different_, unknown_;
};

}  // namespace

bool is_padded(std::int64_t rows, std::int64_t stored) {
  return stored >= rows && stored <= (rows + padded_to - 1) / padded_to * padded_to;
}

std::vector<const StoredTensor*> match_tensors(const StoredTensors& file, const Model& model,
                                               const Names& names) {
  return Fitting(file, model, names).run();
}

}  // namespace ringside
