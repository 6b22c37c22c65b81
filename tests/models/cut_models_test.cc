// Models that are cut into parts, against whole ones: all bits are the same.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/models/model_parts.h"

namespace ringside {
namespace {

/// Whether a cut before unit `place` parts those who make the edge's value from a reader.
bool spans(const Edge& edge, std::size_t place) { return edge.from < place && place <= edge.last; }

/// A model cut before each of some units. Every part has a copy of the model, of which its own
/// units alone are bound. Outputs and values of edges are handed over as copies.
class CutModels : public MicroBatches {
 protected:
  void cut(const std::vector<std::size_t>& places) {
    std::vector<std::size_t> begins{0};
    begins.insert(begins.end(), places.begin(), places.end());
    models_.clear();
    parts_.clear();
    models_.reserve(begins.size());
    for (std::size_t p = 0; p < begins.size(); ++p) {
      models_.push_back(make());
      ModelPart& part = parts_.emplace_back(part_of(models_.back(), 1));
      part.begin = begins[p];
      part.end = p + 1 < begins.size() ? begins[p + 1] : model_.units.size();
      for (std::size_t e = 0; e < model_.edges.size(); ++e) give_table(part, e);
    }
  }
  void give_table(ModelPart& part, std::size_t e) {
    const Edge& edge = model_.edges[e];
    const bool reads = part.begin <= edge.last && edge.last < part.end && edge.from < part.begin;
    if (edge.kind != Edge::Kind::table || !reads) return;
    const Parameter& table = model_.units[edge.from]->layout().parameters()[edge.parameter];
    part.own->side[e].value = copy(parameters_[edge.from].view(table.begin, table.shape));
  }
  template <class Compute>
  void forwards(Compute compute) {
    parts_[0].x = input(1);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (p > 0) hand_over(parts_[p - 1], parts_[p]);
      compute(parts_[p]);
    }
  }
  void hand_over(ModelPart& from, ModelPart& to) {
    to.x = copy(from.x);
    for (std::size_t e = 0; e < model_.edges.size(); ++e) {
      const Edge& edge = model_.edges[e];
      if (edge.kind == Edge::Kind::table || !spans(edge, to.begin)) continue;
      ASSERT_TRUE(from.own->side[e].value) << edge.name;
      to.own->side[e].value = copy(from.own->side[e].value);
    }
  }
  void hand_back(std::size_t p) {
    ModelPart &from = parts_[p], &to = parts_[p - 1];
    to.x = copy(from.x);
    for (std::size_t e = 0; e < model_.edges.size(); ++e) {
      const Edge& edge = model_.edges[e];
      Tensor& gradient = from.own->side[e].gradient;
      if (!spans(edge, from.begin)) continue;
      EXPECT_EQ(static_cast<bool>(gradient), edge.kind != Edge::Kind::data) << edge.name;
      if (gradient) to.own->side[e].gradient = copy(std::exchange(gradient, {}));
    }
  }
  void backwards(bool put_off) {
    parts_.back().x = output_gradient(parts_.back().x, 1);
    for (std::size_t p = parts_.size(); p-- > 0;) {
      if (put_off) put_weights_off(parts_[p]);
      all_backward(parts_[p], !put_off);
      if (put_off) all_finish(parts_[p]);
      expect_gradients(parts_[p]);
      if (p > 0) hand_back(p);
    }
  }
  /// Cuts at each place, and at all of them.
  template <class Check>
  void at_all_places(Check check) {
    std::vector<std::size_t> all;
    for (std::size_t place = 1; place < model_.units.size(); ++place) {
      SCOPED_TRACE("cut before " + model_.units[place]->name());
      cut({place});
      check();
      all.push_back(place);
    }
    SCOPED_TRACE("cut everywhere");
    cut(all);
    check();
  }

  std::vector<Model> models_;
  std::vector<ModelPart> parts_;
};

TEST_P(CutModels, ComputeWhatWholeOnesDo) {
  at_all_places([&] {
    for (const bool put_off : {false, true}) {
      forwards([&](ModelPart& part) { all_forward(part); });
      EXPECT_TRUE(bits(parts_.back().x) == expected(1).logits);
      backwards(put_off);
    }
  });
}

TEST_P(CutModels, EvaluateAsWholeOnesDo) {
  const auto evaluate = [&](ModelPart& part) {
    bind(part, true, false);
    for (std::size_t u = part.begin; u < part.end; ++u)
      part.x = part.model.units[u]->forward(part.x, evaluation, part.own->saved[u]);
  };
  ModelPart whole = part_of(model_, 1);
  whole.x = input(1);
  evaluate(whole);
  at_all_places([&] {
    forwards(evaluate);
    EXPECT_TRUE(bits(parts_.back().x) == bits(whole.x));
  });
}

INSTANTIATE_TEST_SUITE_P(Models, CutModels, ::testing::ValuesIn(ways()), name_of_way);

TEST(Edges, TellWhichUnitsLendTables) {
  for (const Case& one : cases()) {
    const auto device = make_cpu_device(1);
    const Model model = make_model(one.config, *device);
    std::vector<std::optional<std::size_t>> lenders(model.units.size());
    for (const Edge& edge : model.edges) {
      EXPECT_LE(edge.from, edge.last) << one.name;
      ASSERT_LT(edge.last, model.units.size()) << one.name;
      if (edge.kind != Edge::Kind::table) continue;
      lenders[edge.last] = edge.from;
      EXPECT_EQ(model.units[edge.from]->layout().parameters()[edge.parameter].name, "table.tokens");
    }
    for (std::size_t u = 0; u < model.units.size(); ++u)
      EXPECT_EQ(lenders[u], model.lender_of(u)) << one.name << " " << model.units[u]->name();
  }
}

}  // namespace
}  // namespace ringside
