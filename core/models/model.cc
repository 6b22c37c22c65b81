#include "core/models/model.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/device/write_values.h"
#include "core/num/random.h"

namespace ringside {
namespace {

float initial_value(const Init& init, std::uint64_t seed, std::uint64_t position) {
  switch (init.kind) {
    case Init::Kind::constant:
      return init.value;
    case Init::Kind::normal:
      return static_cast<float>(random_normal(seed, Stream::parameters, position)) * init.value;
    case Init::Kind::uniform:
      return static_cast<float>(2 * random_uniform(seed, Stream::parameters, position) - 1) *
             init.value;
  }
  throw Error("unknown kind {} of initial value", static_cast<int>(init.kind));
}

constexpr std::int64_t piece_elements = 1 << 16;

/// A range of one parameter; its first element has `position` in the model.
struct Piece {
  const Init* init;
  std::uint64_t position;
  Tensor out;
};

void draw(Device& device, std::uint64_t seed, const Piece& piece) {
  std::vector<float> values(static_cast<std::size_t>(piece.out.count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = initial_value(*piece.init, seed, piece.position + i);
  write_values(device, piece.out, values);
}

}  // namespace

std::int64_t Model::parameter_count() const { return first_parameter(units.size()); }

std::int64_t Model::first_parameter(std::size_t unit) const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < unit; ++i) first += units[i]->layout().count();
  return first;
}

bool Model::divides_gradients(std::size_t unit) const {
  return unit == 0 || std::ranges::binary_search(gradient_borders, unit);
}

std::optional<std::size_t> Model::lender_of(std::size_t unit) const {
  const Unit* lender = units[unit]->lender();
  for (std::size_t u = 0; lender && u < unit; ++u)
    if (units[u].get() == lender) return u;
  return {};
}

std::int64_t Model::input_bytes() const {
  return input.count() * static_cast<std::int64_t>(size_of(input_dtype(task)));
}

std::int64_t Model::logits_per_sample() const {
  std::int64_t count = 0;
  for (const LossTerm& term : terms) count += term.rows * term.classes;
  return count;
}

void initialise(const Unit& unit, std::int64_t first_parameter, std::uint64_t seed,
                std::int64_t begin, const Tensor& out) {
  const std::int64_t end = begin + out.count();
  if (begin < 0 || end > unit.layout().count())
    throw Error(
        "unit {}: there are no initial values for the range [{}, {}), which is not inside the "
        "unit; the unit has {} elements",
        unit.name(), begin, end, unit.layout().count());
  if (!unit.device().has_values()) return;
  std::vector<Piece> pieces;
  for (const Parameter& parameter : unit.layout().parameters()) {
    const std::int64_t stop = std::min(end, parameter.begin + parameter.shape.count());
    for (std::int64_t at = std::max(begin, parameter.begin); at < stop; at += piece_elements)
      pieces.push_back({&parameter.init, static_cast<std::uint64_t>(first_parameter + at),
                        out.range(at - begin, std::min(piece_elements, stop - at))});
  }
  // Values are independent of each other, so threads draw them: one core would take half a minute
  // for a large model.
  std::atomic<std::size_t> next = 0;
  const auto draw_some = [&] {
    for (std::size_t i; (i = next++) < pieces.size();) draw(unit.device(), seed, pieces[i]);
  };
  std::vector<std::future<void>> others;
  const auto threads = std::min<std::size_t>(static_cast<std::size_t>(allowed_cores().value_or(1)),
                                             pieces.size() / 4);
  for (std::size_t t = 1; t < threads; ++t)
    others.push_back(std::async(std::launch::async, draw_some));
  draw_some();
  for (auto& other : others) other.get();
}

}  // namespace ringside
