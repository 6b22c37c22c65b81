// ringside list
#include <iostream>

#include "core/base/error.h"
#include "experiments/commands.h"
#include "experiments/registry.h"

namespace ringside {
namespace {

template <class Table>
void list_table(const Table& rows, std::string_view title) {
  std::cout << title << "\n";
  for (const auto& row : rows) std::cout << fmt::format("  {:<8} {}\n", row.name, row.summary);
}

bool can_be_used(const DeviceRow& row) {
  try {
    row.count();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

int list_command() {
  std::cout << "schemes (compare.schemes; options in [scheme.NAME])\n";
  for (const SchemeRow& row : scheme_rows()) {
    std::cout << fmt::format("  {:<8} {}\n", row.name, row.summary);
    for (const auto& [option, value] : row.defaults.items())
      std::cout << fmt::format("             {:<22} {}\n", option + " = " + value.dump(),
                               row.descriptions.at(option).template get<std::string>());
  }
  list_table(model_rows(), "models (model.kind)");
  list_table(dataset_rows(), "data sets (data.kind)");
  std::cout << "devices (device.kind)\n";
  for (const DeviceRow& row : device_rows())
    std::cout << fmt::format("  {:<8} {}; {}{}\n", row.name, row.summary,
                             fmt::join(row.precisions, ", "),
                             can_be_used(row) ? "" : " - not here, see `ringside doctor`");
  std::cout << "keys of an experiment file, with their defaults\n";
  const auto keys = [](std::string_view table, auto fields) {
    visit_fields(fields, [&](std::string_view name, auto& field, std::string_view description) {
      std::cout << fmt::format("  {:<40} {}\n",
                               fmt::format("{}.{} = {}", table, name, nlohmann::json(field).dump()),
                               description);
    });
  };
  keys("model", ModelConfig{});
  keys("data", DataConfig{});
  keys("train", TrainConfig{});
  keys("optimizer", OptimizerConfig{});
  keys("device", DeviceConfig{});
  keys("sim", SimConfig{});
  keys("compare", CompareConfig{});
  std::cout << std::flush;
  return ok;
}

}  // namespace ringside
