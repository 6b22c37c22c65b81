#include "core/models/initial_values.h"

#include "core/models/model.h"

namespace ringside {
namespace {

class Drawn final : public InitialValues {
 public:
  explicit Drawn(std::uint64_t seed) : seed_(seed) {}
  void write(const Unit& unit, std::int64_t first_parameter, std::int64_t begin,
             const Tensor& out) const override {
    initialise(unit, first_parameter, seed_, begin, out);
  }

 private:
  std::uint64_t seed_;
};

}  // namespace

std::shared_ptr<const InitialValues> drawn_values(std::uint64_t seed) {
  return std::make_shared<Drawn>(seed);
}

}  // namespace ringside
