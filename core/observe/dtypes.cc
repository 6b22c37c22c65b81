#include "core/observe/dtypes.h"

#include <nlohmann/json.hpp>

namespace ringside {

nlohmann::ordered_json dtypes_json(const TrainConfig& train) {
  const std::string_view precision = name_of(train.precision);
  return {{"parameter", precision},
          {"gradient", precision},
          {"communication", precision},
          {"reduction", name_of(reduce_dtype(train))},
          {"gradient_sum", name_of(sum_dtype(train))},
          {"master", name_of(DType::f32)},
          {"moments", name_of(DType::f32)}};
}

}  // namespace ringside
