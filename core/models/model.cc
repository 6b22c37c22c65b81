#include "core/models/model.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/device/write_values.h"

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
  throw Error("initial value {}: no such kind", static_cast<int>(init.kind));
}

constexpr std::int64_t piece_elements = 1 << 16;

/// Elements of one parameter, the first at `position` in the model.
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

std::int64_t Model::logits_per_sample() const {
  std::int64_t count = 0;
  for (const LossTerm& term : terms) count += term.rows * term.classes;
  return count;
}

void check_positive(const ModelConfig& config, std::initializer_list<std::string_view> sizes) {
  visit_fields(const_cast<ModelConfig&>(config),  // a visitor that only reads
               [&](std::string_view name, auto& value, std::string_view) {
                 if constexpr (std::is_same_v<decltype(value), std::int64_t&>)
                   if (value < 1 && std::find(sizes.begin(), sizes.end(), name) != sizes.end())
                     throw Error("model.{} = {} is too small; it has to be 1 or more", name, value);
               });
}

void check_dropout(const ModelConfig& config) {
  if (!(config.dropout >= 0 && config.dropout < 1))
    throw Error("model.dropout = {} is no share to leave out; choose one from 0 to below 1",
                config.dropout);
}

void check_transformer(const ModelConfig& config) {
  check_positive(config, {"layers", "heads", "width", "context", "vocabulary"});
  check_dropout(config);
  if (config.width % config.heads != 0)
    throw Error("model.heads = {} does not divide model.width = {}; choose a divisor", config.heads,
                config.width);
  if (rows_of_positions(config) < config.context)
    throw Error("model.positions = {} is less than model.context = {}; raise it, or set it to 0",
                config.positions, config.context);
}

void check_images(const ModelConfig& config) {
  check_positive(config, {"image", "channels", "classes", "filters", "batch_norm_group"});
  if (config.stem != "imagenet" && config.stem != "cifar")
    throw Error("model.stem = '{}': there are 'imagenet' and 'cifar'", config.stem);
}

void initialise(const Unit& unit, std::int64_t first_parameter, std::uint64_t seed,
                std::int64_t begin, const Tensor& out) {
  const std::int64_t end = begin + out.count();
  if (begin < 0 || end > unit.layout().count())
    throw Error("unit {}: initial values of elements {} to {} are asked for, it has {}",
                unit.name(), begin, end, unit.layout().count());
  if (!unit.device().has_values()) return;
  std::vector<Piece> pieces;
  for (const Parameter& parameter : unit.layout().parameters()) {
    const std::int64_t stop = std::min(end, parameter.begin + parameter.shape.count());
    for (std::int64_t at = std::max(begin, parameter.begin); at < stop; at += piece_elements)
      pieces.push_back({&parameter.init, static_cast<std::uint64_t>(first_parameter + at),
                        out.range(at - begin, std::min(piece_elements, stop - at))});
  }
  // A large model takes a core half a minute, and a value knows nothing of the others.
  std::atomic<std::size_t> next = 0;
  const auto draw_some = [&] {
    for (std::size_t i; (i = next++) < pieces.size();) draw(unit.device(), seed, pieces[i]);
  };
  std::vector<std::future<void>> others;
  const auto threads =
      std::min<std::size_t>(std::thread::hardware_concurrency(), pieces.size() / 4);
  for (std::size_t t = 1; t < threads; ++t)
    others.push_back(std::async(std::launch::async, draw_some));
  draw_some();
  for (auto& other : others) other.get();
}

}  // namespace ringside
