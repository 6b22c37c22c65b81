#include "core/models/model_part.h"

#include <algorithm>
#include <numeric>

namespace ringside {
namespace {

class ValuesOfPart final : public InitialValues {
 public:
  ValuesOfPart(std::shared_ptr<const InitialValues> whole, const Model& part)
      : whole_(std::move(whole)), part_(part) {}

  void write(const Unit& unit, std::int64_t, std::int64_t begin, const Tensor& out) const override {
    const auto own = std::ranges::find(part_.units, &unit, &std::unique_ptr<Unit>::get);
    const auto u = static_cast<std::size_t>(own - part_.units.begin());
    whole_->write(unit, part_.part->first_parameters[u], begin, out);
  }
  void write_statistics(const Unit& unit) const override { whole_->write_statistics(unit); }

 private:
  std::shared_ptr<const InitialValues> whole_;
  const Model& part_;
};

std::size_t tensors_of(const Model& model, std::size_t units) {
  return std::accumulate(model.units.begin(),
                         model.units.begin() + static_cast<std::ptrdiff_t>(units), std::size_t{0},
                         [](std::size_t sum, const std::unique_ptr<Unit>& unit) {
                           return sum + unit->layout().parameters().size();
                         });
}

std::int64_t statistics_of(const Unit& unit) {
  std::int64_t count = 0;
  for (const Unit::Statistic& one : unit.statistics()) count += one.values.count();
  return count;
}

/// The numbers of values of running statistics before each unit.
std::vector<std::int64_t> first_statistics_of(const Model& model) {
  std::vector<std::int64_t> out;
  std::int64_t before = 0;
  for (const std::unique_ptr<Unit>& unit : model.units) {
    out.push_back(before);
    before += statistics_of(*unit);
  }
  return out;
}

}  // namespace

Model part_of(Model whole, const std::vector<UnitRange>& ranges) {
  Model out;
  out.task = whole.task;
  out.input = whole.input;
  out.terms = whole.terms;
  out.edges = whole.edges;
  Model::Part part{.all_units = whole.units.size(),
                   .all_parameters = whole.parameter_count(),
                   .all_tensors = tensors_of(whole, whole.units.size())};
  const std::vector<std::int64_t> first_statistics = first_statistics_of(whole);
  for (const UnitRange& range : ranges) {
    part.stages.push_back(part.units.size());
    for (std::size_t u = range.first; u < range.last; ++u) {
      part.units.push_back(u);
      part.first_parameters.push_back(whole.first_parameter(u));
      part.first_tensors.push_back(tensors_of(whole, u));
      part.first_statistics.push_back(first_statistics[u]);
    }
  }
  for (const std::size_t u : part.units) out.units.push_back(std::move(whole.units[u]));
  for (std::unique_ptr<Unit>& left : whole.units)
    if (left && std::ranges::any_of(out.units,
                                    [&](const auto& own) { return own->lender() == left.get(); }))
      part.lenders.push_back(std::move(left));
  out.gradient_borders = part.stages;
  out.part = std::move(part);
  return out;
}

std::shared_ptr<const InitialValues> values_of_part(std::shared_ptr<const InitialValues> whole,
                                                    const Model& part) {
  return std::make_shared<ValuesOfPart>(std::move(whole), part);
}

std::vector<ModelStretch> in_whole_model(const Model& model, std::int64_t begin,
                                         std::int64_t count) {
  if (!model.part) return {{begin, count}};
  std::vector<ModelStretch> out;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t first = model.first_parameter(u);
    const std::int64_t from = std::max(begin, first);
    const std::int64_t to = std::min(begin + count, first + model.units[u]->layout().count());
    if (from >= to) continue;
    const std::int64_t place = model.part->first_parameters[u] + from - first;
    if (!out.empty() && out.back().begin + out.back().count == place)
      out.back().count += to - from;
    else
      out.push_back({place, to - from});
  }
  return out;
}

}  // namespace ringside
